// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/tuning_keeper.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/state/file_error.h"
#include "engine/state/names.h"
#include "engine/state/sealed_json.h"

namespace vicinal::durable {
namespace {

state::VersionId IdOf(const PreparedGraph& graph) {
  return {state::Store::kGraphs, graph.parts().name, graph.parts().version, "", 0};
}

// `change` on top of what has been decided.
std::vector<TuningEntry> After(const PreparedGraph& graph, const TuningChange& change) {
  std::vector<TuningEntry> entries = graph.tuning().Decided();
  for (const TuningEntry& changed : change.entries) {
    std::erase_if(entries, [&](const TuningEntry& entry) { return entry.work.key == changed.work.key; });
    if (TuningTable::IsDecision(changed.record)) entries.push_back(changed);
  }
  return entries;
}

// With what serves after `record`; empty: the default.
std::optional<KernelSetting> SettingOf(const TuningRecord& record) {
  const TuningCandidate* const choice = record.choice();
  return choice != nullptr ? std::optional(choice->setting) : std::nullopt;
}

}  // namespace

std::vector<DefaultWork> TuningKeeper::DefaultsOf(const PreparedGraph& graph,
                                                  const std::vector<TuningEntry>& entries) const {
  std::vector<DefaultWork> defaults;
  const auto add = [&](const TuningWork& work) {
    const auto is_decided = [&](const TuningEntry& entry) { return entry.work.key == work.key; };
    const auto is_there = [&](const DefaultWork& other) { return other.work.key == work.key; };
    if (std::any_of(entries.begin(), entries.end(), is_decided)) return;
    if (std::any_of(defaults.begin(), defaults.end(), is_there)) return;
    const AdjacencyShape shape = graph.ShapeOf(work.adjacency);
    defaults.push_back({work, ReductionOrderOf(*parts_.registry, parts_.kind, shape, work.key, std::nullopt)});
  };
  for (const TuningWork& work : graph.tuning().Works()) add(work);
  const auto kept = kept_defaults_.find({graph.parts().name, graph.parts().version});
  if (kept != kept_defaults_.end()) {
    for (const DefaultWork& former : kept->second) add(former.work);
  }
  const bool standard =
      std::all_of(defaults.begin(), defaults.end(), [](const DefaultWork& work) { return work.reduction_order == 0; });
  // All kernels of the CPU add in one order, which the graph's own revision names.
  if (parts_.kind == DeviceKind::kCpu && standard) defaults.clear();
  return defaults;
}

void TuningKeeper::KeepDefaults(const PreparedGraph& graph) {
  const Version version{graph.parts().name, graph.parts().version};
  MutexLock lock(&mutex_);
  if (parts_.read_only || !attached_.contains(version)) return;
  const std::vector<TuningEntry> entries = graph.tuning().Decided();
  // Work comes, and leaves only by a decision: as many are the same.
  if (DefaultsOf(graph, entries).size() == kept_defaults_[version].size()) return;
  const Status written = Write(graph, entries);
  if (written.ok()) return;
  parts_.logger->Log(LogLevel::kWarning,
                     "orders of defaults not kept: a later build cannot tell whether it changes them",
                     {{"graph", graph.parts().name}, {"error", std::string(written.message())}});
}

bool TuningKeeper::CompareDefaults(const PreparedGraph& graph, std::vector<DefaultWork>* defaults) const {
  bool changed = false;
  for (DefaultWork& former : *defaults) {
    const AdjacencyShape shape = graph.ShapeOf(former.work.adjacency);
    const int64_t now = ReductionOrderOf(*parts_.registry, parts_.kind, shape, former.work.key, std::nullopt);
    if (now == former.reduction_order) continue;
    changed = true;
    former.reduction_order = now;
    parts_.logger->Log(LogLevel::kWarning, "the default adds in another order: the graph gets a new numerics revision",
                       {{"graph", graph.parts().name}, {"work", Describe(former.work.key)}});
    TuningEntry entry{former.work, TuningTable::ResetRecord(former.work.key)};
    entry.record.note =
        "the default of the build that served before added in another order; this build's serves under the numerics "
        "revision of its own order";
    graph.tuning().Restore(entry);
  }
  return changed;
}

Status TuningKeeper::Write(const PreparedGraph& graph, const std::vector<TuningEntry>& entries) {
  TuningDocument document{graph.parts().name, graph.parts().version, parts_.device, {}, DefaultsOf(graph, entries)};
  for (const TuningEntry& entry : entries) document.records.push_back(Keep(*parts_.registry, parts_.kind, entry));
  const std::string text = EncodeTuningDocument(document);
  if (text.size() > static_cast<size_t>(state::internal::kMaxDocumentBytes)) {
    return FailedPrecondition(
        "STATE_DOCUMENT_TOO_LARGE",
        absl::StrCat("the tuning decisions of this graph take ", text.size(), " bytes and may take ",
                     state::internal::kMaxDocumentBytes, "; reset some of them"));
  }
  VICINAL_RETURN_IF_ERROR(parts_.directory->PutDocument(IdOf(graph), TuningDocumentName(parts_.device), text));
  kept_defaults_[{graph.parts().name, graph.parts().version}] = std::move(document.defaults);
  return OkStatus();
}

Status TuningKeeper::Attach(const PreparedGraph& graph) {
  MutexLock lock(&mutex_);
  const std::vector<TuningEntry> entries = graph.tuning().Decided();
  if (!entries.empty() || !DefaultsOf(graph, entries).empty()) VICINAL_RETURN_IF_ERROR(Write(graph, entries));
  attached_.emplace(graph.parts().name, graph.parts().version);
  return OkStatus();
}

void TuningKeeper::Detach(const std::string& graph, int64_t version) {
  MutexLock lock(&mutex_);
  attached_.erase({graph, version});
  kept_defaults_.erase({graph, version});
  seen_.erase({graph, version});
}

void TuningKeeper::DetachAllBut(const std::set<state::VersionId>& published) {
  const auto is_gone = [&](const Version& version) {
    return !published.contains({state::Store::kGraphs, version.first, version.second, "", 0});
  };
  MutexLock lock(&mutex_);
  std::erase_if(attached_, is_gone);
  std::erase_if(kept_defaults_, [&](const auto& kept) { return is_gone(kept.first); });
  std::erase_if(seen_, [&](const auto& seen) { return is_gone(seen.first); });
}

bool TuningKeeper::Refresh(const PreparedGraph& graph) {
  const state::VersionId id = IdOf(graph);
  const StatusOr<std::string> text = parts_.directory->GetDocument(id, TuningDocumentName(parts_.device));
  if (!text.ok()) return false;
  {
    MutexLock lock(&mutex_);
    std::string& seen = seen_[{id.name, id.version}];
    if (seen == *text) return false;
    seen = *text;
  }
  Restore(graph);
  return true;
}

bool TuningKeeper::ChangesBits(const PreparedGraph& graph, const TuningChange& change) const {
  return std::any_of(change.entries.begin(), change.entries.end(), [&](const TuningEntry& entry) {
    const AdjacencyShape shape = graph.ShapeOf(entry.work.adjacency);
    const auto order = [&](const std::optional<KernelSetting>& setting) {
      return ReductionOrderOf(*parts_.registry, parts_.kind, shape, entry.work.key, setting);
    };
    return order(graph.tuning().Find(entry.work.key)) != order(SettingOf(entry.record));
  });
}

StatusOr<bool> TuningKeeper::Change(const PreparedGraph& graph, const TuningChange& change) {
  MutexLock lock(&mutex_);
  if (!graph.tuning().Wants(change)) return false;
  if (!parts_.read_only && attached_.contains({graph.parts().name, graph.parts().version})) {
    const Status written = Write(graph, After(graph, change));
    if (!written.ok()) {
      if (ChangesBits(graph, change)) return written;
      parts_.logger->Log(LogLevel::kWarning, "tuning decisions serve, but are not durable",
                         {{"graph", graph.parts().name}, {"error", std::string(written.message())}});
    }
  }
  return graph.tuning().Apply(change);
}

void TuningKeeper::LogDropped(const PreparedGraph& graph, const Status& error) const {
  parts_.logger->Log(LogLevel::kWarning, "kept tuning dropped: measured again, under another numerics revision",
                     {{"graph", graph.parts().name},
                      {"version", absl::StrCat(graph.parts().version)},
                      {"error", std::string(error.message())}});
}

StatusOr<TuningEntry> TuningKeeper::UsableHere(const PreparedGraph& graph, const KeptRecord& kept) const {
  const TuningWork& work = kept.entry.work;
  VICINAL_ASSIGN_OR_RETURN(
      TuningEntry entry, Usable(*parts_.registry, parts_.kind, graph.ShapeOf(work.adjacency), graph.weighted(), kept));
  const TuningCandidate* const choice = entry.record.choice();
  if (choice == nullptr || parts_.first_runs == nullptr) return entry;
  const std::string why = parts_.first_runs->WhyQuarantined(ConfigurationName(work.key, *choice));
  if (!why.empty()) return FailedPrecondition("KERNEL_QUARANTINED", why);
  return entry;
}

bool TuningKeeper::Withdraw(const PreparedGraph& graph, const std::string& configuration) {
  TuningChange change;
  for (const TuningEntry& entry : graph.tuning().Decided()) {
    const TuningCandidate* const choice = entry.record.choice();
    if (choice == nullptr || ConfigurationName(entry.work.key, *choice) != configuration) continue;
    change.entries.push_back({entry.work, TuningTable::ResetRecord(entry.work.key)});
    change.entries.back().record.note =
        absl::StrCat(configuration, " is quarantined; the default serves under the numerics revision of its own order");
  }
  if (change.entries.empty()) return false;
  const StatusOr<bool> changed = Change(graph, change);
  // It must not run again, whatever the disk does. After a restart the mark withdraws it once more.
  return changed.ok() ? *changed : graph.tuning().Apply(change);
}

int64_t TuningKeeper::Adopt(const PreparedGraph& graph, const TuningDocument& document) const {
  int64_t dropped = 0;
  for (const KeptRecord& kept : document.records) {
    const TuningWork& work = kept.entry.work;
    StatusOr<TuningEntry> entry = UsableHere(graph, kept);
    if (!entry.ok()) {
      ++dropped;
      parts_.logger->Log(LogLevel::kWarning, "kept tuning cannot be used: the graph gets a new numerics revision",
                         {{"graph", graph.parts().name},
                          {"work", Describe(work.key)},
                          {"error", std::string(entry.status().message())}});
      const TuningCandidate* const choice = kept.entry.record.choice();
      std::string note = absl::StrCat("kernel '", choice != nullptr ? choice->setting.kernel : "",
                                      "', chosen before, cannot be used (", std::string(entry.status().message()),
                                      "); the default serves under the numerics revision of its own order");
      entry = TuningEntry{work, TuningTable::ResetRecord(work.key)};
      entry->record.note = std::move(note);
    }
    graph.tuning().Restore(*entry);
  }
  return dropped;
}

void TuningKeeper::Restore(const PreparedGraph& graph) {
  const state::VersionId id = IdOf(graph);
  const std::string name = TuningDocumentName(parts_.device);
  MutexLock lock(&mutex_);
  attached_.emplace(id.name, id.version);
  const StatusOr<std::string> text = parts_.directory->GetDocument(id, name);
  if (text.status().code() == StatusCode::kNotFound) return;
  const auto parse = [&]() -> StatusOr<TuningDocument> {
    VICINAL_RETURN_IF_ERROR(text.status());
    const std::string path = absl::StrCat(state::Describe(id), ", ", name);
    VICINAL_ASSIGN_OR_RETURN(TuningDocument document, ParseTuningDocument(path, *text));
    if (document.graph != id.name || document.version != id.version) {
      return state::Damaged(path,
                            "it is of graph '" + document.graph + "' version " + std::to_string(document.version));
    }
    return document;
  };
  StatusOr<TuningDocument> document = parse();
  if (!document.ok()) {
    LogDropped(graph, document.status());
    const bool damaged = document.status().code() == StatusCode::kDataLoss;
    if (damaged && !parts_.read_only) parts_.directory->DropDocument(id, name).IgnoreError();
    return;
  }
  if (document->device != parts_.device) return;  // the names of two devices' documents are equal, for once
  const int64_t dropped = Adopt(graph, *document);
  const bool changed = CompareDefaults(graph, &document->defaults);
  kept_defaults_[{id.name, id.version}] = std::move(document->defaults);
  // Each time that the graph comes back: of interest where something is not as it was.
  parts_.logger->Log(
      dropped > 0 || changed ? LogLevel::kInfo : LogLevel::kDebug, "tuning restored",
      {{"graph", id.name}, {"records", absl::StrCat(document->records.size())}, {"dropped", absl::StrCat(dropped)}});
  if (parts_.on_restore) parts_.on_restore(graph);
  if ((dropped == 0 && !changed) || parts_.read_only) return;
  // From now on the new revisions count: an older build that comes back must not return to those of the dropped ones.
  const Status written = Write(graph, graph.tuning().Decided());
  if (!written.ok()) LogDropped(graph, written);
}

}  // namespace vicinal::durable

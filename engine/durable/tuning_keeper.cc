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
    if (changed.record.state != TuningState::kFailed) entries.push_back(changed);
  }
  return entries;
}

// With what serves after `record`; empty: the default.
std::optional<KernelSetting> SettingOf(const TuningRecord& record) {
  const TuningCandidate* const choice = record.choice();
  return choice != nullptr ? std::optional(choice->setting) : std::nullopt;
}

}  // namespace

Status TuningKeeper::Write(const PreparedGraph& graph, const std::vector<TuningEntry>& entries) const {
  TuningDocument document{graph.parts().name, graph.parts().version, parts_.device, {}};
  for (const TuningEntry& entry : entries) document.records.push_back(Keep(*parts_.registry, parts_.kind, entry));
  const std::string text = EncodeTuningDocument(document);
  if (text.size() > static_cast<size_t>(state::internal::kMaxDocumentBytes)) {
    return FailedPrecondition(
        "STATE_DOCUMENT_TOO_LARGE",
        absl::StrCat("the tuning decisions of this graph take ", text.size(), " bytes and may take ",
                     state::internal::kMaxDocumentBytes, "; reset some of them"));
  }
  return parts_.directory->PutDocument(IdOf(graph), TuningDocumentName(parts_.device), text);
}

Status TuningKeeper::Attach(const PreparedGraph& graph) {
  MutexLock lock(&mutex_);
  const std::vector<TuningEntry> entries = graph.tuning().Decided();
  if (!entries.empty()) VICINAL_RETURN_IF_ERROR(Write(graph, entries));
  attached_.emplace(graph.parts().name, graph.parts().version);
  return OkStatus();
}

void TuningKeeper::Detach(const std::string& graph, int64_t version) {
  MutexLock lock(&mutex_);
  attached_.erase({graph, version});
  seen_.erase({graph, version});
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
  const StatusOr<TuningDocument> document = parse();
  if (!document.ok()) {
    LogDropped(graph, document.status());
    const bool damaged = document.status().code() == StatusCode::kDataLoss;
    if (damaged && !parts_.read_only) parts_.directory->DropDocument(id, name).IgnoreError();
    return;
  }
  if (document->device != parts_.device) return;  // the names of two devices' documents are equal, for once
  const int64_t dropped = Adopt(graph, *document);
  parts_.logger->Log(
      LogLevel::kInfo, "tuning restored",
      {{"graph", id.name}, {"records", absl::StrCat(document->records.size())}, {"dropped", absl::StrCat(dropped)}});
  if (parts_.on_restore) parts_.on_restore(graph);
  if (dropped == 0 || parts_.read_only) return;
  // From now on the new revisions count: an older build that comes back must not return to those of the dropped ones.
  const Status written = Write(graph, graph.tuning().Decided());
  if (!written.ok()) LogDropped(graph, written);
}

}  // namespace vicinal::durable

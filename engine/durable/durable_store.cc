// SPDX-License-Identifier: Apache-2.0
// The writer. Jobs run one at a time, so that removals and writes of one name cannot overtake each other.
#include "engine/durable/durable_store.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::durable {
namespace {

using state::Store;
using state::VersionId;

VersionId GraphId(const std::string& name, int64_t version) { return {Store::kGraphs, name, version, "", 0}; }
VersionId ModelId(const std::string& name, int64_t version) { return {Store::kModels, name, version, "", 0}; }
VersionId FeaturesId(const std::string& graph, int64_t graph_version, const std::string& name, int64_t version) {
  return {Store::kFeatures, name, version, graph, graph_version};
}

// Whether publishing `later` makes `earlier` superfluous.
bool Replaces(const VersionId& later, const VersionId& earlier) {
  return earlier.store == later.store && earlier.name == later.name && earlier.graph == later.graph &&
         earlier.graph_version == later.graph_version && earlier.version < later.version;
}

}  // namespace

DurableStore::DurableStore(Parts parts)
    : parts_(std::move(parts)),
      loader_({parts_.directory, parts_.graphs, parts_.device, parts_.budget, parts_.logger, parts_.stats,
               parts_.tuning, parts_.on_load,
               [this](const VersionId& id, const Status& error) { CannotLoad(id, error); }, parts_.num_loaders,
               parts_.max_waiting}),
      writer_([this] { parts_.read_only ? FollowLoop() : WriteLoop(); }) {}

DurableStore::~DurableStore() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  loader_.Stop();
  writer_.join();
  if (!parts_.read_only) WriteRecent();
}

bool DurableStore::stopping() const {
  MutexLock lock(&mutex_);
  return stopping_;
}

void DurableStore::Queue(VersionId id, std::function<void()> write) {
  MutexLock lock(&mutex_);
  jobs_.push_back({std::move(id), std::move(write)});
  changed_.NotifyAll();
}

void DurableStore::WriteLoop() {
  // Of this thread, and a wish. Queries come first where cores are few: a graph keeps one busy while it is written.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10);
  using Time = std::chrono::steady_clock::time_point;
  Time sweep = parts_.sweep_period.count() > 0 ? std::chrono::steady_clock::now() : Time::max();
  for (;;) {
    Job job;
    bool sweep_is_due = false;
    {
      MutexLock lock(&mutex_);
      writing_.reset();
      changed_.NotifyAll();
      while (jobs_.empty() && !stopping_ && std::chrono::steady_clock::now() < sweep) {
        if (sweep == Time::max())
          changed_.Wait(&mutex_);
        else
          changed_.WaitUntil(&mutex_, sweep);
      }
      if (jobs_.empty() && stopping_) return;
      // Also while versions come without pause: replaced ones must not fill the disk.
      sweep_is_due = !stopping_ && std::chrono::steady_clock::now() >= sweep;
    }
    if (sweep_is_due) {
      Sweep();
      sweep = std::chrono::steady_clock::now() + parts_.sweep_period;
      continue;
    }
    {
      MutexLock lock(&mutex_);
      job = std::move(jobs_.front());
      jobs_.pop_front();
      writing_ = job.id;
    }
    job.write();
  }
}

void DurableStore::Sweep() {
  // A load that found the manifest opens the files of its version within this time; open files can be deleted.
  constexpr std::chrono::seconds kGrace{60};
  RemoveReplaced(kGrace);
  WriteRecent();
  const StatusOr<state::SweepReport> report = parts_.directory->Sweep(kGrace);
  if (!report.ok()) {
    parts_.logger->Log(LogLevel::kWarning, "state directory not swept",
                       {{"error", std::string(report.status().message())}});
  } else if (report->files > 0) {
    parts_.logger->Log(LogLevel::kInfo, "state directory swept",
                       {{"files", absl::StrCat(report->files)}, {"bytes", absl::StrCat(report->bytes)}});
  }
}

void DurableStore::WriteRecent() {
  std::vector<std::string> recent = parts_.graphs->ByUse();
  {
    MutexLock lock(&mutex_);
    if (recent == recent_) return;
  }
  const Status written = parts_.directory->PutRecent(recent);
  if (!written.ok()) {
    parts_.logger->Log(LogLevel::kWarning, "order of use not kept for the next start",
                       {{"error", std::string(written.message())}});
    return;
  }
  MutexLock lock(&mutex_);
  recent_ = std::move(recent);
}

bool DurableStore::Flush(MonotonicTime deadline) {
  MutexLock lock(&mutex_);
  while (writing_.has_value() || !jobs_.empty()) {
    if (!changed_.WaitUntil(&mutex_, deadline)) break;
  }
  return !writing_.has_value() && jobs_.empty();
}

// --- publication ---

void DurableStore::GraphPublished(const std::string& name) {
  const StatusOr<GraphStatus> status = parts_.graphs->Get(name);
  if (!status.ok() || status->graph == nullptr) return;
  Queue(GraphId(name, status->graph->parts().version), [this, graph = status->graph] { Write(graph); });
  for (const FeatureSetHandle& set : status->feature_sets) FeaturesPublished(set);
}

void DurableStore::FeaturesPublished(const FeatureSetHandle& set) {
  const StatusOr<GraphHandle> graph = parts_.graphs->Peek(set->graph, 0, "", 0);
  if (!graph.ok()) return;
  const int64_t version = graph->graph->parts().version;
  Queue(FeaturesId(set->graph, version, set->name, set->version), [this, set, version] { Write(set, version); });
}

void DurableStore::ModelPublished(const ModelHandle& model, std::shared_ptr<const ModelDocument> document) {
  Queue(ModelId(model->name, model->version),
        [this, model, document = std::move(document)] { Write(model, *document); });
}

void DurableStore::Write(const std::shared_ptr<const PreparedGraph>& graph) {
  const auto is_unwanted = [&] { return stopping() || !parts_.graphs->IsServing(*graph); };
  if (is_unwanted()) return;
  const VersionId id = GraphId(graph->parts().name, graph->parts().version);
  // The feature sets that it has now become durable with it: no crash, copy or replica sees it without them.
  std::vector<VersionId> sets;
  const auto write_sets = [&]() -> Status {
    VICINAL_ASSIGN_OR_RETURN(const GraphStatus status, parts_.graphs->Get(id.name));
    if (status.graph != graph) return absl::CancelledError("the graph was replaced");
    for (const FeatureSetHandle& set : status.feature_sets) {
      sets.push_back(FeaturesId(id.name, id.version, set->name, set->version));
      VICINAL_ASSIGN_OR_RETURN(const auto writer, parts_.directory->BeginVersion(sets.back()));
      VICINAL_RETURN_IF_ERROR(WriteFeatures(*set->matrix, set->create_time, *parts_.device, *writer, is_unwanted));
    }
    return OkStatus();
  };
  const Status written = [&]() -> Status {
    VICINAL_ASSIGN_OR_RETURN(const auto writer, parts_.directory->BeginVersion(id));
    if (parts_.tuning != nullptr) VICINAL_RETURN_IF_ERROR(parts_.tuning->Attach(*graph));
    return WriteGraph(*graph, *writer, is_unwanted, write_sets);
  }();
  if (parts_.tuning != nullptr && !written.ok()) parts_.tuning->Detach(id.name, id.version);
  Finish(id, written);
  for (const VersionId& set : sets) Finish(set, written);
  parts_.graphs->NotifyWatchers(id.name);
}

bool DurableStore::IsFinished(const VersionId& id) const {
  MutexLock lock(&mutex_);
  return published_.contains(id) || failures_.contains(id);
}

void DurableStore::Write(const FeatureSetHandle& set, int64_t graph_version) {
  const auto is_unwanted = [&] {
    return stopping() || !parts_.graphs->Has(set->graph, graph_version, set->name, set->version);
  };
  const VersionId id = FeaturesId(set->graph, graph_version, set->name, set->version);
  if (is_unwanted() || IsFinished(id)) return;
  const Status written = [&]() -> Status {
    VICINAL_ASSIGN_OR_RETURN(const auto writer, parts_.directory->BeginVersion(id));
    return WriteFeatures(*set->matrix, set->create_time, *parts_.device, *writer, is_unwanted);
  }();
  Finish(id, written);
  parts_.graphs->NotifyWatchers(set->graph);
}

void DurableStore::Write(const ModelHandle& model, const ModelDocument& document) {
  if (stopping() || !parts_.models->IsServing(model->name, *model->model)) return;
  const VersionId id = ModelId(model->name, model->version);
  const Status written = [&]() -> Status {
    VICINAL_ASSIGN_OR_RETURN(const auto writer, parts_.directory->BeginVersion(id));
    return WriteModel(*model, document, *writer);
  }();
  Finish(id, written);
  parts_.models->NotifyWatchers(id.name);
}

void DurableStore::Finish(const VersionId& id, const Status& written) {
  if (!written.ok()) {
    if (written.code() == StatusCode::kCancelled) return;
    parts_.logger->Log(LogLevel::kError, "version not durable",
                       {{"version", state::Describe(id)}, {"error", std::string(written.message())}});
    MutexLock lock(&mutex_);
    std::erase_if(failures_, [&](const auto& failure) { return Replaces(id, failure.first); });
    failures_[id] = written;
    return;
  }
  MutexLock lock(&mutex_);
  published_.insert(id);
  std::erase_if(failures_, [&](const auto& failure) { return Replaces(id, failure.first); });
}

void DurableStore::RemoveReplaced(std::chrono::seconds age) {
  const MonotonicTime now = parts_.clock->Now();
  std::vector<VersionId> old;
  if (!loaded()) return;  // a later version may turn out to be damaged
  {
    MutexLock lock(&mutex_);
    std::map<VersionId, MonotonicTime> replaced;
    std::map<VersionId, VersionId> latest;  // of each name, which has version 0 here; versions of one name rise
    for (const VersionId& id : published_) {
      VersionId name = id;
      name.version = 0;
      const auto [known, is_first] = latest.try_emplace(name, id);
      if (is_first) continue;
      const auto noted = replaced_.find(known->second);
      replaced[known->second] = noted == replaced_.end() ? now : noted->second;
      known->second = id;
    }
    replaced_ = std::move(replaced);
    for (const auto& [id, since] : replaced_) {
      if (now - since >= age) old.push_back(id);
    }
  }
  for (const VersionId& id : old) {
    const Status removed = RemoveFromDisk(id);
    if (removed.ok()) continue;
    parts_.logger->Log(LogLevel::kWarning, "replaced version not removed from disk",
                       {{"version", state::Describe(id)}, {"error", std::string(removed.message())}});
  }
}

// --- deletion ---

// A version that is not in its store any more is deleted. The stores were asked to delete it before, so nothing of that
// name is written any more, but for what a later upload has published under another version.

// With a version go those that it replaced and that are still on disk: they must not come back in its place.
int64_t DurableStore::LastToRemove(const VersionId& id) const {
  if (id.version == 0) return std::numeric_limits<int64_t>::max();
  MutexLock lock(&mutex_);
  return published_.contains(id) || failures_.contains(id) ? id.version : 0;
}

Status DurableStore::RemoveGraph(const std::string& name, int64_t version) {
  const auto is_of_name = [&](const VersionId& id) {
    return (id.store == Store::kGraphs && id.name == name) || (id.store == Store::kFeatures && id.graph == name);
  };
  const int64_t last = LastToRemove(GraphId(name, version));
  const auto is_deleted = [&](const VersionId& id) {
    return id.store == Store::kGraphs && id.name == name && id.version <= last && !parts_.graphs->Has(name, id.version);
  };
  return Remove(is_of_name, is_deleted, "graph", name);
}

Status DurableStore::RemoveFeatures(const std::string& graph, const std::string& name) {
  const auto is_of_name = [&](const VersionId& id) {
    return id.store == Store::kFeatures && id.graph == graph && id.name == name;
  };
  const auto is_deleted = [&](const VersionId& id) {
    return is_of_name(id) && !parts_.graphs->Has(graph, id.graph_version, name, id.version);
  };
  // A graph that is being written takes the set with it.
  const auto is_written_with = [&](const VersionId& id) {
    return is_of_name(id) || (id.store == Store::kGraphs && id.name == graph);
  };
  return Remove(is_written_with, is_deleted, "feature set", name);
}

Status DurableStore::RemoveModel(const std::string& name, int64_t version) {
  const auto is_of_name = [&](const VersionId& id) { return id.store == Store::kModels && id.name == name; };
  const int64_t last = LastToRemove(ModelId(name, version));
  const auto is_deleted = [&](const VersionId& id) {
    return is_of_name(id) && id.version <= last && !parts_.models->Find(name, id.version).ok();
  };
  return Remove(is_of_name, is_deleted, "model", name);
}

Status DurableStore::Remove(const IdFilter& is_of_name, const IdFilter& is_deleted, const char* type,
                            const std::string& name) {
  std::vector<VersionId> deleted;
  {
    MutexLock lock(&mutex_);
    while (writing_.has_value() && is_of_name(*writing_)) changed_.Wait(&mutex_);
    for (const VersionId& id : published_) {
      if (is_deleted(id)) deleted.push_back(id);
    }
  }
  // The latest last: until then nothing that it replaced can come back in its place, and the call can be repeated.
  for (const VersionId& id : deleted) {
    const Status removed = RemoveFromDisk(id);
    if (removed.ok()) continue;
    return Annotate(removed, absl::StrCat(type, " '", name,
                                          "' is deleted in memory, but not on disk, and would come back with the next "
                                          "start; delete it again"));
  }
  MutexLock lock(&mutex_);
  std::erase_if(failures_, [&](const auto& failure) { return is_deleted(failure.first); });
  return deleted.empty() ? NotFound(type, name) : OkStatus();
}

Status DurableStore::RemoveFromDisk(const VersionId& id) {
  Status removed = parts_.directory->Remove(id, state::StateDirectory::Data::kLeaveToSweep);
  if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
  if (parts_.tuning != nullptr && id.store == Store::kGraphs) parts_.tuning->Detach(id.name, id.version);
  MutexLock lock(&mutex_);
  std::erase_if(published_, [&](const VersionId& version) {
    return version == id ||
           (id.store == Store::kGraphs && version.store == Store::kFeatures && state::GraphOf(version) == id);
  });
  return OkStatus();
}

// --- status ---

template <class Resource>
void DurableStore::DescribeVersion(const VersionId& id, Resource* resource) const {
  MutexLock lock(&mutex_);
  const auto failed = failures_.find(id);
  if (published_.contains(id)) {
    resource->durability = Durability::kDurable;
  } else if (failed != failures_.end()) {
    resource->durability_error = failed->second;
  } else {
    resource->durability = Durability::kWriting;
  }
}

void DurableStore::Describe(GraphResource* resource) const {
  if (!resource->serving) return;
  const int64_t version = resource->serving->version;
  DescribeVersion(GraphId(resource->name, version), &*resource->serving);
  for (FeatureSetResource& set : resource->feature_sets) {
    DescribeVersion(FeaturesId(set.graph, version, set.name, set.version), &set);
  }
}

void DurableStore::Describe(FeatureSetResource* resource) const {
  const StatusOr<GraphStatus> graph = parts_.graphs->Get(resource->graph);
  const int64_t version = graph.ok() ? ServingVersion(*graph) : 0;
  if (version != 0) DescribeVersion(FeaturesId(resource->graph, version, resource->name, resource->version), resource);
}

void DurableStore::Describe(ModelResource* resource) const {
  DescribeVersion(ModelId(resource->name, resource->version), resource);
}

std::vector<VersionId> DurableStore::IdsOf(const UploadedVersion& version) const {
  if (version.kind == UploadedVersion::Kind::kModel) return {ModelId(version.name, version.version)};
  const StatusOr<GraphStatus> status = parts_.graphs->Get(version.name);
  const int64_t graph_version = status.ok() ? ServingVersion(*status) : 0;
  if (graph_version == 0) return {};
  const bool is_graph = version.kind == UploadedVersion::Kind::kGraph;
  std::vector<VersionId> ids = {GraphId(version.name, is_graph ? version.version : graph_version)};
  const auto add = [&](const std::string& name, int64_t set_version) {
    if (name != (is_graph ? "default" : version.feature_set)) return;
    ids.push_back(FeaturesId(version.name, graph_version, name, is_graph ? set_version : version.version));
  };
  for (const FeatureSetHandle& set : status->feature_sets) add(set->name, set->version);
  if (status->stored != nullptr) {
    for (const FeatureSetResource& set : status->stored->feature_sets) add(set.name, set.version);
  }
  return ids;
}

StatusOr<bool> DurableStore::IsDurable(const UploadedVersion& version) const {
  const std::vector<VersionId> ids = IdsOf(version);
  MutexLock lock(&mutex_);
  bool durable = !ids.empty();
  for (const VersionId& id : ids) {
    if (published_.contains(id)) continue;
    if (const auto failed = failures_.find(id); failed != failures_.end()) return failed->second;
    durable = false;
  }
  return durable;
}

}  // namespace vicinal::durable

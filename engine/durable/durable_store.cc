// SPDX-License-Identifier: Apache-2.0
// The writer. Jobs run one at a time, so that removals and writes of one name cannot overtake each other.
#include "engine/durable/durable_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/durable/failures.h"
#include "engine/durable/version_ids.h"
#include "engine/durable/writer_thread.h"

namespace vicinal::durable {
using state::Store;
using state::VersionId;

DurableStore::DurableStore(Parts parts)
    : parts_(std::move(parts)),
      loader_({parts_.directory, parts_.graphs, parts_.device, parts_.budget, parts_.logger, parts_.stats,
               parts_.tuning, parts_.on_load,
               [this](const VersionId& id, const Status& error) { return CannotLoad(id, error); }, parts_.read_only,
               parts_.num_loaders, parts_.max_waiting, parts_.layouts,
               [this](const std::shared_ptr<const PreparedGraph>& graph) { StoreLayouts(graph); },
               parts_.before_serving, parts_.after_start, parts_.clock}),
      writer_([this] { parts_.read_only ? FollowLoop() : WriteLoop(); }) {}

DurableStore::~DurableStore() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  loader_.Stop();
  if (writer_.joinable()) writer_.join();
  if (parts_.read_only) return;
  WriteRecent();
  KeepDefaults();
}

void DurableStore::KeepDefaults() {
  if (parts_.tuning == nullptr) return;
  parts_.graphs->ForEach([&](const GraphStatus& status) {
    if (status.graph != nullptr) parts_.tuning->KeepDefaults(*status.graph);
  });
}

bool DurableStore::stopping() const {
  MutexLock lock(&mutex_);
  return stopping_;
}

void DurableStore::Queue(VersionId id, int64_t bytes, std::function<void()> write) {
  MutexLock lock(&mutex_);
  jobs_.push_back({std::move(id), std::move(write), bytes});
  changed_.NotifyAll();
}

DurableStore::Step DurableStore::NextStep(MonotonicTime sweep, Job* job) {
  MutexLock lock(&mutex_);
  writing_.reset();
  changed_.NotifyAll();
  for (;;) {
    const MonotonicTime now = std::chrono::steady_clock::now();
    if (!stopping_ && !waiting_.empty() && now >= retry_at_) RetryAll();
    // Also while versions come without pause: replaced ones must not fill the disk.
    if (!stopping_ && now >= sweep) return Step::kSweep;
    if (!jobs_.empty()) {
      *job = std::move(jobs_.front());
      jobs_.pop_front();
      writing_ = job->id;
      writing_bytes_ = job->bytes;
      return Step::kWrite;
    }
    if (stopping_) return Step::kEnd;
    const MonotonicTime wake = waiting_.empty() ? sweep : std::min(sweep, retry_at_);
    if (wake == MonotonicTime::max()) {
      changed_.Wait(&mutex_);
    } else {
      changed_.WaitUntil(&mutex_, wake);
    }
  }
}

void DurableStore::WriteLoop() {
  StandBackBehindQueries();  // a graph keeps a core busy while it is written
  const bool sweeps = parts_.sweep_period.count() > 0;
  MonotonicTime sweep = sweeps ? std::chrono::steady_clock::now() : MonotonicTime::max();
  for (;;) {
    Job job;
    switch (NextStep(sweep, &job)) {
      case Step::kEnd:
        return;
      case Step::kSweep:
        Sweep();
        sweep = std::chrono::steady_clock::now() + parts_.sweep_period;
        break;
      case Step::kWrite:
        job.write();
        KeepIfItCanPass(std::move(job));
        break;
    }
  }
}

void DurableStore::Sweep() {
  // A load that found the manifest opens the files of its version within this time; open files can be deleted.
  constexpr std::chrono::seconds kGrace{60};
  const Status reachable = parts_.directory->CheckReachable();
  if (!reachable.ok()) {
    Count(reachable);
    parts_.logger->Log(LogLevel::kError, "state directory gone", {{"error", std::string(reachable.message())}});
    return;
  }
  RemoveReplaced(kGrace);
  WriteRecent();
  KeepDefaults();
  const StatusOr<state::SweepReport> report = parts_.directory->Sweep(kGrace);
  if (!report.ok()) {
    Count(report.status());
    parts_.logger->Log(LogLevel::kWarning, "state directory not swept",
                       {{"error", std::string(report.status().message())}});
  } else if (report->files > 0) {
    parts_.logger->Log(LogLevel::kInfo, "state directory swept",
                       {{"files", absl::StrCat(report->files)}, {"bytes", absl::StrCat(report->bytes)}});
    Retry();  // there is space now, perhaps, for what waits
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
    Count(written);
    parts_.logger->Log(LogLevel::kWarning, "order of use not kept for the next start",
                       {{"error", std::string(written.message())}});
    return;
  }
  MutexLock lock(&mutex_);
  recent_ = std::move(recent);
}

bool DurableStore::Flush(MonotonicTime deadline, const StopCheck& hurry) {
  constexpr std::chrono::milliseconds kLook{50};
  MutexLock lock(&mutex_);
  while (writing_.has_value() || !jobs_.empty()) {
    const MonotonicTime now = std::chrono::steady_clock::now();
    if (now >= deadline || (hurry && !hurry().ok())) return false;
    changed_.WaitUntil(&mutex_, hurry ? std::min<MonotonicTime>(deadline, now + kLook) : deadline);
  }
  return true;
}

// --- publication ---

void DurableStore::GraphPublished(const std::string& name) {
  const StatusOr<GraphStatus> status = parts_.graphs->Get(name);
  if (!status.ok() || status->graph == nullptr) return;
  int64_t bytes = status->graph->size_bytes();
  for (const FeatureSetHandle& set : status->feature_sets) bytes += set->size_bytes();
  // Weakly: what waits for space must not keep a graph in memory that was replaced meanwhile.
  Queue(GraphId(name, status->graph->parts().version), bytes,
        [this, weak = std::weak_ptr<const PreparedGraph>(status->graph)] {
          if (const auto serving = weak.lock()) Write(serving);
        });
  for (const FeatureSetHandle& set : status->feature_sets) FeaturesPublished(set);
}

void DurableStore::FeaturesPublished(const FeatureSetHandle& set) {
  const StatusOr<GraphHandle> graph = parts_.graphs->Peek(set->graph, 0, "", 0);
  if (!graph.ok()) return;
  const int64_t version = graph->graph->parts().version;
  Queue(FeaturesId(set->graph, version, set->name, set->version, set->kind), set->size_bytes(),
        [this, version, weak = std::weak_ptr<const FeatureSet>(set)] {
          if (const auto serving = weak.lock()) Write(serving, version);
        });
}

void DurableStore::ModelPublished(const ModelHandle& model, std::shared_ptr<const ModelDocument> document) {
  const auto bytes = static_cast<int64_t>(document->architecture_json.size() + document->weights_file.size());
  Queue(ModelId(model->name, model->version), bytes,
        [this, model, document = std::move(document)] { Write(model, *document); });
}

void DurableStore::Write(const std::shared_ptr<const PreparedGraph>& graph) {
  const auto is_unwanted = [&] { return stopping() || !parts_.graphs->IsServing(*graph); };
  if (is_unwanted()) return;
  const VersionId id = GraphId(graph->parts().name, graph->parts().version);
  // The feature sets that it has now become durable with it: no crash, copy or replica sees it without them.
  std::vector<VersionId> sets;
  const auto write_sets = [&]() -> Status {
    const StatusOr<GraphStatus> status = parts_.graphs->Get(id.name);
    if (!status.ok() || status->graph != graph) return absl::CancelledError("the graph was deleted or replaced");
    for (const FeatureSetHandle& set : status->feature_sets) {
      sets.push_back(FeaturesId(id.name, id.version, set->name, set->version, set->kind));
      VICINAL_ASSIGN_OR_RETURN(const auto writer, parts_.directory->BeginVersion(sets.back()));
      VICINAL_RETURN_IF_ERROR(WriteFeatures(*set, *parts_.device, *writer, is_unwanted));
    }
    return OkStatus();
  };
  const Status written = [&]() -> Status {
    VICINAL_RETURN_IF_ERROR(DiscardFailed(id));
    VICINAL_ASSIGN_OR_RETURN(const auto writer, parts_.directory->BeginVersion(id));
    if (parts_.tuning != nullptr) VICINAL_RETURN_IF_ERROR(parts_.tuning->Attach(*graph));
    return WriteGraph(*graph, *writer, is_unwanted, write_sets);
  }();
  if (parts_.tuning != nullptr && !written.ok()) parts_.tuning->Detach(id.name, id.version);
  Finish(id, written);
  for (const VersionId& set : sets) Finish(set, written);
  parts_.graphs->NotifyWatchers(id.name);
  if (written.ok()) StoreLayouts(graph);
}

void DurableStore::StoreLayouts(const std::shared_ptr<const PreparedGraph>& graph) {
  if (parts_.layouts == nullptr || parts_.read_only) return;
  const VersionId id = GraphId(graph->parts().name, graph->parts().version);
  const auto keep = [this, id, weak = std::weak_ptr<const PreparedGraph>(graph)] {
    const auto is_unwanted = [&] {
      const auto serving = weak.lock();
      return stopping() || serving == nullptr || !parts_.graphs->IsServing(*serving);
    };
    const auto serving = weak.lock();
    if (is_unwanted()) return;
    const Status kept = parts_.layouts->Keep(*serving, is_unwanted);
    {
      MutexLock lock(&mutex_);
      disk_bytes_.erase(id);
    }
    NotePublished(id);
    if (kept.ok() || kept.code() == StatusCode::kCancelled) return;
    Count(kept);
    parts_.logger->Log(LogLevel::kWarning, "layouts not stored: the next start makes them again",
                       {{"version", state::Describe(id)}, {"error", std::string(kept.message())}});
  };
  // Graphs make layouts for plans and trials, which end before this object does.
  graph->NotifyOfLayouts([this, id, keep] { Queue(id, 0, keep); });
  if (!graph->Layouts().empty()) Queue(id, 0, keep);
}

void DurableStore::Write(const FeatureSetHandle& set, int64_t graph_version) {
  const auto is_unwanted = [&] {
    return stopping() || !parts_.graphs->Has(set->graph, graph_version, set->name, set->version, set->kind);
  };
  const VersionId id = FeaturesId(set->graph, graph_version, set->name, set->version, set->kind);
  if (is_unwanted() || IsPublished(id)) return;
  // Where the graph waits, its sets are written with it.
  const Status graph_failed = FailureOf(GraphId(set->graph, graph_version));
  if (!graph_failed.ok() && !FailureOf(id).ok()) return;  // told already
  const Status written = [&]() -> Status {
    VICINAL_RETURN_IF_ERROR(graph_failed);
    VICINAL_RETURN_IF_ERROR(DiscardFailed(id));
    VICINAL_ASSIGN_OR_RETURN(const auto writer, parts_.directory->BeginVersion(id));
    return WriteFeatures(*set, *parts_.device, *writer, is_unwanted);
  }();
  Finish(id, written);
  parts_.graphs->NotifyWatchers(set->graph);
}

void DurableStore::Write(const ModelHandle& model, const ModelDocument& document) {
  if (stopping() || !parts_.models->IsServing(model->name, *model->model)) return;
  const VersionId id = ModelId(model->name, model->version);
  const Status written = [&]() -> Status {
    VICINAL_RETURN_IF_ERROR(DiscardFailed(id));
    VICINAL_ASSIGN_OR_RETURN(const auto writer, parts_.directory->BeginVersion(id));
    return WriteModel(*model, document, *writer);
  }();
  Finish(id, written);
  parts_.models->NotifyWatchers(id.name);
}

// --- status ---

void DurableStore::NotePublished(const VersionId& id) {
  {
    MutexLock lock(&mutex_);
    published_.insert(id);
    if (disk_bytes_.contains(id)) return;
  }
  const StatusOr<state::Manifest> manifest = parts_.directory->GetManifest(id);
  const int64_t bytes = manifest.ok() ? parts_.directory->DiskBytes(*manifest) : 0;
  MutexLock lock(&mutex_);
  if (published_.contains(id)) disk_bytes_[id] = bytes;
}

StoredBytes DurableStore::on_disk() const {
  StoredBytes bytes;
  MutexLock lock(&mutex_);
  for (const VersionId& id : published_) {
    const auto known = disk_bytes_.find(id);
    if (known == disk_bytes_.end()) continue;
    int64_t& kind = id.store == Store::kGraphs        ? bytes.graphs
                    : state::BelongsToGraph(id.store) ? bytes.features
                                                      : bytes.models;
    kind += known->second;
  }
  return bytes;
}

template <class Resource>
void DurableStore::DescribeVersion(const VersionId& id, Resource* resource) const {
  MutexLock lock(&mutex_);
  const auto failed = failures_.find(id);
  if (published_.contains(id)) {
    resource->durability = Durability::kDurable;
  } else if (failed != failures_.end()) {
    resource->durability_error = failed->second.why;
  } else {
    resource->durability = Durability::kWriting;
  }
}

void DurableStore::Describe(GraphResource* resource) const {
  if (!resource->serving) return;
  const int64_t version = resource->serving->version;
  DescribeVersion(GraphId(resource->name, version), &*resource->serving);
  for (FeatureSetResource& set : resource->feature_sets) {
    DescribeVersion(FeaturesId(set.graph, version, set.name, set.version, set.kind), &set);
  }
}

void DurableStore::Describe(FeatureSetResource* resource) const {
  const StatusOr<GraphStatus> graph = parts_.graphs->Get(resource->graph);
  const int64_t version = graph.ok() ? ServingVersion(*graph) : 0;
  if (version == 0) return;
  DescribeVersion(FeaturesId(resource->graph, version, resource->name, resource->version, resource->kind), resource);
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
  const FeatureSetKey wanted = {
      version.kind == UploadedVersion::Kind::kEdgeFeatures ? FeatureKind::kEdges : FeatureKind::kNodes,
      is_graph ? kDefaultFeatureSet : version.feature_set};
  const auto add = [&](const auto& set) {
    if (vicinal::KeyOf(set) != wanted) return;
    ids.push_back(
        FeaturesId(version.name, graph_version, set.name, is_graph ? set.version : version.version, set.kind));
  };
  for (const FeatureSetHandle& set : status->feature_sets) add(*set);
  if (status->stored != nullptr) {
    for (const FeatureSetResource& set : status->stored->feature_sets) add(set);
  }
  return ids;
}

StatusOr<bool> DurableStore::IsDurable(const UploadedVersion& version) const {
  const std::vector<VersionId> ids = IdsOf(version);
  MutexLock lock(&mutex_);
  bool durable = !ids.empty();
  for (const VersionId& id : ids) {
    if (published_.contains(id)) continue;
    if (const auto failed = failures_.find(id); failed != failures_.end()) return failed->second.why;
    durable = false;
  }
  return durable;
}

}  // namespace vicinal::durable

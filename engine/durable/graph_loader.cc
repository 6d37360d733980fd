// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/graph_loader.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/device/host_threads.h"
#include "engine/device/limited_device.h"
#include "engine/durable/failures.h"
#include "engine/durable/graph_codec.h"
#include "engine/durable/graph_metadata.h"
#include "engine/durable/load_level.h"
#include "engine/durable/version_ids.h"
#include "engine/state/file_error.h"

namespace vicinal::durable {
namespace {

using state::Manifest;
using state::Store;
using state::VersionId;

// Another server takes over, or this one is back, within this time.
constexpr std::chrono::milliseconds kRetryAfter{1000};

Status Stopping() {
  return Unavailable("DRAINING", "the server is stopping and loads no more graphs; ask another one, or try again",
                     kRetryAfter);
}

Status TooManyWait(int64_t maximum) {
  return Unavailable("QUEUE_FULL",
                     absl::StrCat("at most ", maximum, " requests may wait for graphs that are on disk; try again"),
                     kRetryAfter);
}

ServingGraph ServingOf(const VersionId& id, const GraphMetadata& metadata) {
  ServingGraph serving;
  serving.version = id.version;
  serving.create_time = metadata.create_time;
  serving.ids_digest = metadata.ids_digest;
  serving.source_digest = metadata.source_digest;
  serving.pinned = metadata.pinned;
  serving.tier = Tier::kDisk;
  serving.weighted = metadata.weighted;
  serving.edge_feature_width = metadata.edge_feature_width;
  serving.edge_order_kept = metadata.edge_order || metadata.edge_count == 0;
  serving.requested_order = metadata.requested_order;
  serving.order = metadata.order;
  serving.numerics_revision = metadata.numerics_revision;
  serving.stages = metadata.stages;
  serving.profile = metadata.profile;
  return serving;
}

}  // namespace

StoredGraph DescribeUnread(const VersionId& graph) {
  StoredGraph stored;
  stored.serving.version = graph.version;
  stored.serving.tier = Tier::kDisk;
  return stored;
}

StoredGraph DescribeStored(const Manifest& graph, const std::vector<Manifest>& sets) {
  StoredGraph stored = DescribeUnread(graph.id);
  const StatusOr<GraphMetadata> metadata = ParseGraphMetadata(graph);
  if (!metadata.ok()) return stored;
  stored.serving = ServingOf(graph.id, *metadata);
  stored.node_count = metadata->node_count;
  stored.edge_count = metadata->edge_count;
  std::map<FeatureSetKey, FeatureSetResource> latest;
  for (const Manifest& set : sets) {
    FeatureSetResource resource = DescribeFeatures(set, {metadata->node_count, metadata->edge_count});
    FeatureSetResource& known = latest[vicinal::KeyOf(resource)];
    if (resource.version > known.version) known = std::move(resource);
  }
  for (auto& [key, set] : latest) stored.feature_sets.push_back(std::move(set));
  return stored;
}

StoredGraph DescribeStored(const state::Listing& listing) {
  return DescribeStored(listing.published.front(),
                        std::vector<Manifest>(listing.published.begin() + 1, listing.published.end()));
}

GraphLoader::GraphLoader(Parts parts) : parts_(std::move(parts)) {
  for (int i = 0; i < parts_.num_threads; ++i) threads_.emplace_back([this] { Loop(); });
}

GraphLoader::~GraphLoader() { Stop(); }

void GraphLoader::Stop() {
  std::vector<Waiter> waiters;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    for (auto& [name, task] : tasks_) {
      for (Waiter& waiter : task.waiters) waiters.push_back(std::move(waiter));
      task.waiters.clear();
    }
    waiting_ = 0;
    changed_.NotifyAll();
  }
  for (const Waiter& waiter : waiters) waiter.done(Stopping());
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void GraphLoader::LoadAll(const std::vector<std::string>& names) {
  MutexLock lock(&mutex_);
  for (const std::string& name : names) {
    Task& task = tasks_[name];
    if (task.at_start) continue;
    task.at_start = true;
    ++starting_;
    at_start_.push_back(name);
  }
  changed_.NotifyAll();
}

bool GraphLoader::loaded() const {
  MutexLock lock(&mutex_);
  return starting_ == 0;
}

Status GraphLoader::Load(const std::string& name, const WorkLimits& limits, Done done) {
  Ended ended;
  Status taken = [&]() -> Status {
    MutexLock lock(&mutex_);
    if (stopping_) return Stopping();
    if (waiting_ >= parts_.max_waiting) {
      for (auto& [waited_for, task] : tasks_) TakeEnded(&task, &ended);
    }
    if (waiting_ >= parts_.max_waiting) return TooManyWait(parts_.max_waiting);
    ++waiting_;
    Task& task = tasks_[name];
    task.waiters.push_back({std::move(done), limits});
    if (!task.running && task.waiters.size() == 1) {
      urgent_.push_back(name);
      changed_.NotifyAll();
    }
    return OkStatus();
  }();
  for (const auto& [gone, why] : ended) gone(why);
  return taken;
}

void GraphLoader::TakeEnded(Task* task, Ended* ended) {
  const size_t gone = std::erase_if(task->waiters, [&](Waiter& waiter) {
    Status why = waiter.limits.Check(*parts_.clock);
    if (why.ok()) return false;
    ended->emplace_back(std::move(waiter.done), std::move(why));
    return true;
  });
  waiting_ -= static_cast<int64_t>(gone);
}

Status GraphLoader::LoadAndWait(const std::string& name, const WorkLimits& limits, const Clock& clock) {
  struct Outcome {
    Mutex mutex;
    CondVar changed;
    std::optional<Status> status VICINAL_GUARDED_BY(mutex);
  };
  const auto outcome = std::make_shared<Outcome>();
  VICINAL_RETURN_IF_ERROR(Load(name, limits, [outcome](const Status& loaded) {
    MutexLock lock(&outcome->mutex);
    outcome->status = loaded;
    outcome->changed.NotifyAll();
  }));
  // A client that cancels is noticed after this time.
  constexpr std::chrono::milliseconds kLook{20};
  MutexLock lock(&outcome->mutex);
  while (!outcome->status) {
    VICINAL_RETURN_IF_ERROR(limits.Check(clock));
    outcome->changed.WaitUntil(&outcome->mutex, std::chrono::steady_clock::now() + kLook);
  }
  return *outcome->status;
}

// The next task that waits, or what is left to do after the start.
std::optional<GraphLoader::Job> GraphLoader::Next(Ended* ended) {
  for (std::deque<std::string>* const queue : {&urgent_, &at_start_}) {
    while (!queue->empty()) {
      Job job = {std::move(queue->front())};
      queue->pop_front();
      const auto task = tasks_.find(job.name);
      if (task == tasks_.end() || task->second.running) continue;
      TakeEnded(&task->second, ended);
      if (task->second.waiters.empty() && !task->second.at_start) {
        tasks_.erase(task);
        continue;
      }
      task->second.running = true;
      job.evict = !task->second.waiters.empty();
      return job;
    }
  }
  if (starting_ > 0 || after_start_runs_ || after_start_.empty()) return std::nullopt;
  after_start_runs_ = true;
  Job job = {std::move(after_start_.front()), /*evict=*/false, /*after_start=*/true};
  after_start_.pop_front();
  return job;
}

std::optional<GraphLoader::Job> GraphLoader::WaitForJob() {
  for (;;) {
    Ended ended;
    std::optional<Job> job;
    {
      MutexLock lock(&mutex_);
      for (;;) {
        if (stopping_) return std::nullopt;
        job = Next(&ended);
        if (job || !ended.empty()) break;
        changed_.Wait(&mutex_);
      }
    }
    for (const auto& [done, why] : ended) done(why);
    if (job) return job;
  }
}

void GraphLoader::Loop() {
  std::unique_ptr<DeviceContext> context;
  std::optional<HostThreads> threads;
  while (const std::optional<Job> job = WaitForJob()) {
    if (job->after_start) {
      RunAfterStart(*job);
      continue;
    }
    if (context == nullptr) {
      context = parts_.device->CreateContext();
      threads.emplace(*context);
    }
    RunLoad(*job, threads->pool());
  }
}

void GraphLoader::RunLoad(const Job& job, ThreadPool* pool) {
  if (job.evict) parts_.graphs->Touch(job.name);  // others go first
  std::optional<LimitedDevice::WithoutEviction> keep;
  if (!job.evict) keep.emplace();
  // Held until its requests have it: others that need memory meanwhile would send it away again.
  std::shared_ptr<const PreparedGraph> graph;
  const Status loaded = LoadNow(job.name, job.evict, pool, &graph);
  keep.reset();
  std::vector<Waiter> waiters;
  bool at_start = false;
  {
    MutexLock lock(&mutex_);
    const auto found = tasks_.find(job.name);
    Task& task = found->second;
    task.running = false;
    if (!job.evict && loaded.code() == StatusCode::kResourceExhausted && !task.waiters.empty()) {
      urgent_.push_front(job.name);  // a request came meanwhile, for which others may be evicted
      return;
    }
    at_start = task.at_start;
    waiters = std::move(task.waiters);
    waiting_ -= static_cast<int64_t>(waiters.size());
    tasks_.erase(found);
  }
  for (const Waiter& waiter : waiters) waiter.done(loaded);
  const bool serves = graph != nullptr;
  graph.reset();  // once all are loaded(), none is held
  if (!at_start) return;
  MutexLock lock(&mutex_);
  if (serves && !job.evict && parts_.after_start) after_start_.push_back(job.name);
  --starting_;
}

void GraphLoader::RunAfterStart(const Job& job) {
  parts_.after_start(job.name, [this]() -> Status {
    MutexLock lock(&mutex_);
    return stopping_ ? Stopping() : OkStatus();
  });
  bool last = false;
  {
    MutexLock lock(&mutex_);
    after_start_runs_ = false;
    last = after_start_.empty() && !stopping_;
  }
  if (last) parts_.logger->Log(LogLevel::kInfo, "plans of the start made", {});
}

Status GraphLoader::LoadNow(const std::string& name, bool evict, ThreadPool* pool,
                            std::shared_ptr<const PreparedGraph>* graph) {
  for (;;) {
    const int64_t version = parts_.graphs->StoredVersion(name);
    if (version == 0) return OkStatus();
    if (const auto copy = parts_.graphs->HostCopyOf(name, version)) {
      *graph = copy->graph();
      VICINAL_RETURN_IF_ERROR(Return(name, version, *copy, evict));
      continue;
    }
    if (parts_.directory == nullptr) continue;  // it was replaced or deleted just now
    const VersionId id = {Store::kGraphs, name, version, "", 0};
    const auto begin = std::chrono::steady_clock::now();
    StatusOr<std::shared_ptr<const PreparedGraph>> loaded = LoadFromDisk(id, evict, pool);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    // At the start some find no room, and stay on disk: nothing has failed.
    const bool no_room = !evict && loaded.status().code() == StatusCode::kResourceExhausted;
    if (!no_room) parts_.stats->GraphLoaded(loaded.ok() ? "loaded" : "failed", seconds.count());
    if (loaded.ok()) {
      *graph = *std::move(loaded);
      parts_.logger->Log(
          LoadLevel(evict), "graph loaded",
          {{"graph", name}, {"version", absl::StrCat(version)}, {"seconds", absl::StrCat(seconds.count())}});
      return OkStatus();
    }
    const Status error = Explained(id, loaded.status());
    const Status told = error.code() == StatusCode::kResourceExhausted ? error : parts_.on_failure(id, error);
    if (MayBeReadable(error)) {
      parts_.graphs->PostponeLoad(name, version);
      return Annotate(error, absl::StrCat("graph '", name, "' could not be read from disk; try again later"));
    }
    const StatusOr<StoredGraph> earlier =
        error.code() == StatusCode::kDataLoss ? Earlier(id) : StatusOr<StoredGraph>(error);
    if (!earlier.ok()) {
      parts_.graphs->FailLoad(name, version, told);
      return Annotate(told, absl::StrCat("graph '", name, "' could not be loaded from disk"));
    }
    parts_.logger->Log(
        LogLevel::kWarning, "an earlier version serves",
        {{"graph", name}, {"damaged", absl::StrCat(version)}, {"version", absl::StrCat(earlier->serving.version)}});
    parts_.graphs->ReplaceStored(name, version, *earlier);
  }
}

StatusOr<std::shared_ptr<const PreparedGraph>> GraphLoader::LoadFromDisk(const VersionId& id, bool evict,
                                                                         ThreadPool* pool) {
  constexpr int kMostLooks = 8;
  VICINAL_ASSIGN_OR_RETURN(Loaded loaded, Read(id, evict, pool));
  for (int looks = 1; !Publish(id, evict, loaded); ++looks) {
    VICINAL_ASSIGN_OR_RETURN(StoredGraph listed, ReadNewSets(id, evict, pool, &loaded));
    // Another server publishes faster than this one reads: what has been read serves.
    if (looks >= kMostLooks) parts_.graphs->ReplaceStored(id.name, id.version, std::move(listed));
  }
  return loaded.graph;
}

bool GraphLoader::Publish(const VersionId& id, bool evict, const Loaded& loaded) {
  const MutexLock serving(&serving_mutex_);
  if (evict && parts_.before_serving) parts_.before_serving(loaded.graph, loaded.feature_sets);
  const bool done = parts_.graphs->FinishLoad(id.name, id.version, loaded.graph, loaded.feature_sets, loaded.lost);
  if (done) parts_.on_load();
  return done;
}

// What was published and has no files any more was removed behind the server's back: by itself, or with everything.
Status GraphLoader::Explained(const VersionId& id, const Status& error) const {
  if (error.code() != StatusCode::kNotFound || parts_.read_only) return error;
  VICINAL_RETURN_IF_ERROR(parts_.directory->CheckReachable());
  if (parts_.graphs->StoredVersion(id.name) != id.version) return error;  // deleted meanwhile
  return state::Damaged(state::Describe(id), "its files are missing");
}

Status GraphLoader::Adopt(const VersionId& id, ThreadPool* pool, const BeforeAdopted& before) {
  VICINAL_ASSIGN_OR_RETURN(Loaded loaded, Read(id, /*evict=*/true, pool));
  before(loaded.graph, loaded.feature_sets);  // may take long: requests that wait for other graphs go on
  const MutexLock serving(&serving_mutex_);
  parts_.graphs->Adopt(std::move(loaded.graph), std::move(loaded.feature_sets), std::move(loaded.lost));
  parts_.on_load();
  return OkStatus();
}

Status GraphLoader::AdoptFeatures(const Manifest& manifest, const std::shared_ptr<const PreparedGraph>& graph,
                                  ThreadPool* pool, const BeforeAdopted& before) {
  VICINAL_ASSIGN_OR_RETURN(const int64_t bytes,
                           FeatureBytesBound(manifest, {graph->num_nodes(), graph->num_edges()}, *parts_.device));
  VICINAL_ASSIGN_OR_RETURN(Reservation memory, parts_.budget->Reserve(Account::kPreparing, bytes,
                                                                      absl::StrCat(TypeName(KindOf(manifest.id.store)),
                                                                                   " '", manifest.id.name, "'")));
  VICINAL_ASSIGN_OR_RETURN(FeatureSet set, ReadSet(manifest, *graph, &memory, pool));
  memory.Release();
  before(graph, {set});
  parts_.graphs->AdoptFeatures(manifest.id.graph_version, std::move(set));
  parts_.on_load();
  return OkStatus();
}

StatusOr<StoredGraph> GraphLoader::Earlier(const VersionId& id) const {
  VICINAL_ASSIGN_OR_RETURN(const state::Listing listing, parts_.directory->List());
  const Manifest* latest = nullptr;
  for (const Manifest& manifest : listing.published) {
    const bool is_graph = manifest.id.store == Store::kGraphs && manifest.id.name == id.name;
    if (is_graph && manifest.id.version < id.version) latest = &manifest;
  }
  if (latest == nullptr) return NotFound("graph version", id.name, "no earlier version is on disk");
  std::vector<Manifest> sets;
  for (const Manifest& manifest : listing.published) {
    if (state::BelongsToGraph(manifest.id.store) && state::GraphOf(manifest.id) == latest->id) sets.push_back(manifest);
  }
  return DescribeStored(*latest, sets);
}

}  // namespace vicinal::durable

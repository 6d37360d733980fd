// SPDX-License-Identifier: Apache-2.0
// One map under one lock; every method reads or changes a few words in it. Invariants: large objects are moved
// out of the map and freed after the lock; watchers are called after it, too. No memory is reserved under the lock,
// because evictors ask the store which plans are current. The lock order is store, PreparedGraph, MemoryBudget.
#include "engine/store/graph_store.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/store/watchers.h"

namespace vicinal {
namespace {

// After this time another client may have deleted something.
constexpr std::chrono::milliseconds kRetryAfter{5000};
// Most graphs are loaded within this time. Only who does not wait for the load sees the error.
constexpr std::chrono::milliseconds kLoadingRetry{500};

struct Entry {
  std::shared_ptr<const PreparedGraph> graph;  // the version that serves
  std::map<std::string, FeatureSetHandle> features;
  std::map<std::string, Status> lost_features;  // why they could not be loaded; those in `features` count
  int64_t preparing_version = 0;                // 0: no preparation is under way
  VersionClaim features_version;                // while preparing: for the features that come with the graph
  double progress = 0.0;
  std::string stage;
  std::shared_ptr<const StoredGraph> stored;  // the version that has to be loaded
  std::shared_ptr<HostCopy> host;             // of `stored`; null: it is on disk only
  bool loading = false;                       // `stored` has not been in memory yet
  MonotonicTime last_use{};
  int64_t declared_nodes = 0, declared_edges = 0;
  Status error;                // of the last preparation or load
  int64_t failed_version = 0;  // whose error that is
  Status load_error;           // why the version on disk cannot be loaded; OK: it can, or there is none

  GraphState state() const {
    if (preparing_version != 0) return GraphState::kPreparing;
    if (graph) return GraphState::kReady;
    if (!stored) return GraphState::kFailed;
    return loading ? GraphState::kLoading : GraphState::kReady;
  }
  int64_t version() const {
    if (graph) return graph->parts().version;
    return stored ? stored->serving.version : 0;
  }
};

std::string Quoted(const char* type, const std::string& name) { return absl::StrCat(type, " '", name, "'"); }

Status Aborted(const char* reason, const char* type, const std::string& name, const std::string& message,
               int64_t version) {
  ErrorDetail detail;
  detail.reason = reason;
  detail.resource_type = type;
  detail.resource_name = name;
  detail.metadata = {{"version", absl::StrCat(version)}};
  return MakeError(StatusCode::kAborted, message, detail);
}

Status VersionDiffers(const char* type, const std::string& name, int64_t version, int64_t wanted) {
  return Aborted(
      "VERSION_MISMATCH", type, name,
      absl::StrCat(Quoted(type, name), version == 0 ? " has no version yet" : absl::StrCat(" is at version ", version),
                   ", but if_version is ", wanted, "; read the current version and decide again"),
      version);
}

Status VersionGone(const char* type, const std::string& name, int64_t version, int64_t wanted) {
  ErrorDetail detail;
  detail.reason = "VERSION_NOT_FOUND";
  detail.resource_type = type;
  detail.resource_name = name;
  detail.metadata = {{"version", absl::StrCat(version)}};
  return MakeError(StatusCode::kNotFound,
                   absl::StrCat(Quoted(type, name), " is at version ", version, "; version ", wanted,
                                " no longer exists; request version 0 for the latest"),
                   detail);
}

Status TooMany(const char* type, const char* flag, int64_t maximum) {
  ErrorDetail detail;
  detail.reason = "TOO_MANY";
  detail.resource_type = type;
  detail.retry_after = kRetryAfter;
  detail.metadata = {{"limit", flag}, {"maximum", absl::StrCat(maximum)}};
  return MakeError(StatusCode::kResourceExhausted,
                   absl::StrCat("this server keeps at most ", maximum, " ", type, "s (--", flag, "); delete one first"),
                   detail);
}

// Accounts for a version that no longer serves: only requests still use its memory.
void Retire(const FeatureSetHandle& set) {
  if (set != nullptr && set->memory != nullptr) set->memory->TransferTo(Account::kRequests);
}

void Retire(const Entry& entry) {
  if (entry.graph) entry.graph->TransferReservation(Account::kRequests);
  for (const auto& [name, set] : entry.features) Retire(set);
}

// The set as it is kept: each copy of its matrix keeps its reservation alive.
FeatureSetHandle HandleOf(FeatureSet set) {
  if (set.memory != nullptr) {
    set.memory->TransferTo(Account::kFeatures);
    set.matrix = WithReservation<const FeatureMatrix>(std::move(set.matrix), set.memory);
  }
  return std::make_shared<const FeatureSet>(std::move(set));
}

// Removes sets that `stored` does not describe.
void DropUnlisted(const StoredGraph& stored, std::vector<FeatureSet>* sets) {
  std::erase_if(*sets, [&](const FeatureSet& set) {
    return std::none_of(stored.feature_sets.begin(), stored.feature_sets.end(),
                        [&](const FeatureSetResource& listed) { return listed.version == set.version; });
  });
}

// Whether the entry alone holds what `stored` describes, which is then all it has in memory.
bool IsOnlyIn(const Entry& entry, const StoredGraph& stored) {
  if (!entry.graph || entry.version() != stored.serving.version || entry.graph.use_count() > 1) return false;
  if (entry.features.size() != stored.feature_sets.size()) return false;
  size_t next = 0;
  return std::all_of(entry.features.begin(), entry.features.end(), [&](const auto& set) {
    return set.second->version == stored.feature_sets[next++].version && set.second.use_count() == 1 &&
           set.second->matrix.use_count() == 1;
  });
}

// GraphStore::Find in the entry of `graph`.
StatusOr<GraphHandle> HandleIn(const Entry& entry, const std::string& graph, int64_t graph_version,
                               const std::string& feature_set, int64_t feature_set_version) {
  if (!entry.graph) {
    if (entry.stored) {
      const char* const from = entry.host != nullptr ? " is being copied to the device" : " is being loaded from disk";
      return Unavailable("GRAPH_LOADING", absl::StrCat(Quoted("graph", graph), from, "; try again"), kLoadingRetry);
    }
    if (!entry.load_error.ok() && entry.preparing_version == 0) {
      return Annotate(entry.load_error, absl::StrCat(Quoted("graph", graph), " could not be loaded from disk"));
    }
    const bool failed = entry.state() == GraphState::kFailed;
    return FailedPrecondition(
        "GRAPH_NOT_READY",
        failed ? absl::StrCat(Quoted("graph", graph), " could not be prepared: ", entry.error.message(),
                              "; upload it again")
               : absl::StrCat(Quoted("graph", graph), " is being prepared; wait until it is READY (WatchGraph)"));
  }
  if (graph_version != 0 && graph_version != entry.version())
    return VersionGone("graph", graph, entry.version(), graph_version);
  GraphHandle handle;
  handle.graph = entry.graph;
  if (feature_set.empty()) return handle;
  const auto set = entry.features.find(feature_set);
  if (set == entry.features.end()) {
    if (const auto lost = entry.lost_features.find(feature_set); lost != entry.lost_features.end()) {
      return Annotate(lost->second, absl::StrCat(Quoted("feature set", feature_set), " of ", Quoted("graph", graph),
                                                 " could not be loaded from disk"));
    }
    return NotFound("feature set", feature_set,
                    absl::StrCat("upload it to ", Quoted("graph", graph), ", or send features with the request"));
  }
  if (feature_set_version != 0 && feature_set_version != set->second->version) {
    return VersionGone("feature set", feature_set, set->second->version, feature_set_version);
  }
  handle.features = set->second;
  return handle;
}

GraphStatus StatusOf(const std::string& name, const Entry& entry) {
  GraphStatus status;
  status.name = name;
  status.state = entry.state();
  status.progress = status.state == GraphState::kReady ? 1.0 : entry.progress;
  status.stage = status.state == GraphState::kPreparing ? entry.stage : "";
  status.error = entry.error;
  status.preparing_version = entry.preparing_version;
  status.failed_version = entry.failed_version;
  const bool prepared = status.state == GraphState::kReady && entry.graph != nullptr;
  status.node_count = prepared ? entry.graph->num_nodes() : entry.declared_nodes;
  status.edge_count = prepared ? entry.graph->num_edges() : entry.declared_edges;
  if (status.state != GraphState::kPreparing && entry.stored) {
    status.node_count = entry.stored->node_count;
    status.edge_count = entry.stored->edge_count;
  }
  status.graph = entry.graph;
  status.stored = entry.stored;
  status.host = entry.host;
  for (const auto& [feature_name, set] : entry.features) status.feature_sets.push_back(set);
  return status;
}

}  // namespace

int64_t ServingVersion(const GraphStatus& status) {
  if (status.graph != nullptr) return status.graph->parts().version;
  return status.stored != nullptr ? status.stored->serving.version : 0;
}

struct GraphStore::State {
  explicit State(Options given) : options(given) {
    if (options.clock == nullptr) options.clock = &Clock::Real();
    if (options.graph_versions == nullptr) options.graph_versions = &own_graph_versions;
    if (options.feature_versions == nullptr) options.feature_versions = &own_feature_versions;
  }

  FeatureSetHandle MakeFeatureSet(const std::string& graph, const std::string& name, VersionClaim version,
                                  std::shared_ptr<const FeatureMatrix> matrix, std::shared_ptr<Reservation> memory,
                                  std::string source_digest) VICINAL_REQUIRES(mutex) {
    FeatureSet set;
    set.graph = graph;
    set.name = name;
    set.version = version.Take();
    set.create_time = options.clock->WallNow();
    set.matrix = std::move(matrix);
    set.memory = std::move(memory);
    set.source_digest = std::move(source_digest);
    return HandleOf(std::move(set));
  }

  // Null unless that version has to be loaded.
  Entry* FindStored(const std::string& name, int64_t version) VICINAL_REQUIRES(mutex) {
    const auto found = entries.find(name);
    if (found == entries.end() || !found->second.stored) return nullptr;
    return found->second.stored->serving.version == version ? &found->second : nullptr;
  }

  // Makes place for one more name by evicting one whose preparation failed; appends that to `evicted`.
  Status AdmitName(std::string* evicted) VICINAL_REQUIRES(mutex) {
    // What is lost on disk takes no place, and must not pass for something that never was.
    const auto takes_place = [](const auto& e) { return e.second.load_error.ok(); };
    if (std::count_if(entries.begin(), entries.end(), takes_place) < options.max_graphs) return OkStatus();
    const auto failed = std::find_if(entries.begin(), entries.end(), [&](const auto& e) {
      return takes_place(e) && e.second.state() == GraphState::kFailed;
    });
    if (failed == entries.end()) return TooMany("graph", "max_graphs", options.max_graphs);
    *evicted = failed->first;
    entries.erase(failed);
    return OkStatus();
  }

  VersionSource own_graph_versions, own_feature_versions;  // before `entries`, which hold claims
  Options options;
  internal::Watchers watchers;
  mutable Mutex mutex;
  std::map<std::string, Entry> entries VICINAL_GUARDED_BY(mutex);
};

GraphStore::GraphStore(Options options) : state_(std::make_shared<State>(options)) {}

StatusOr<int64_t> GraphStore::BeginPrepare(const std::string& name, bool replace, int64_t if_version,
                                           int64_t node_count, int64_t edge_count) {
  VICINAL_ASSIGN_OR_RETURN(VersionClaim claim, state_->options.graph_versions->Claim());
  VICINAL_ASSIGN_OR_RETURN(VersionClaim features_claim, state_->options.feature_versions->Claim());
  std::string evicted;
  int64_t version = 0;
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(name);
    const Entry* current = found == state_->entries.end() ? nullptr : &found->second;
    if (current && current->version() != 0 && !replace) {
      return AlreadyExists("graph", name, "set replace to replace it, or delete it first");
    }
    if (current && current->preparing_version != 0) {
      return Aborted(
          "PREPARATION_UNDER_WAY", "graph", name,
          absl::StrCat(Quoted("graph", name), " is being prepared from another upload; wait until that ends"),
          current->version());
    }
    const int64_t version_now = current ? current->version() : 0;
    if (if_version != 0 && if_version != version_now) return VersionDiffers("graph", name, version_now, if_version);
    if (!current) VICINAL_RETURN_IF_ERROR(state_->AdmitName(&evicted));
    Entry& entry = state_->entries[name];
    version = claim.Take();
    entry.preparing_version = version;
    entry.features_version = std::move(features_claim);
    entry.progress = 0.0;
    entry.stage.clear();
    entry.error = OkStatus();
    entry.failed_version = 0;
    entry.declared_nodes = node_count;
    entry.declared_edges = edge_count;
  }
  if (!evicted.empty()) state_->watchers.Notify(evicted);
  state_->watchers.Notify(name);
  return version;
}

void GraphStore::SetProgress(const std::string& name, int64_t version, double progress, std::string_view stage) {
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(name);
    if (found == state_->entries.end() || found->second.preparing_version != version) return;
    found->second.progress = std::clamp(progress, 0.0, 1.0);
    found->second.stage = std::string(stage);
  }
  state_->watchers.Notify(name);
}

bool GraphStore::IsPreparing(const std::string& name, int64_t version) const {
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(name);
  return found != state_->entries.end() && found->second.preparing_version == version;
}

void GraphStore::FinishPrepare(const std::string& name, int64_t version,
                               StatusOr<std::shared_ptr<const PreparedGraph>> graph,
                               std::shared_ptr<const FeatureMatrix> default_features,
                               std::shared_ptr<Reservation> features_memory) {
  // What is replaced is freed after the lock.
  std::shared_ptr<const PreparedGraph> old_graph;
  std::shared_ptr<HostCopy> old_host;
  std::map<std::string, FeatureSetHandle> old_features;
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(name);
    if (found == state_->entries.end() || found->second.preparing_version != version) return;
    Entry& entry = found->second;
    entry.preparing_version = 0;
    VersionClaim features_version = std::move(entry.features_version);
    if (graph.ok()) {
      Retire(entry);
      entry.stored = nullptr;
      old_host = std::exchange(entry.host, nullptr);
      entry.load_error = OkStatus();
      entry.last_use = state_->options.clock->Now();
      old_graph = std::exchange(entry.graph, *std::move(graph));
      old_features = std::exchange(entry.features, {});
      entry.lost_features.clear();
      entry.graph->TransferReservation(Account::kGraphs);
      if (default_features) {
        entry.features["default"] =
            state_->MakeFeatureSet(name, "default", std::move(features_version), std::move(default_features),
                                   std::move(features_memory), entry.graph->parts().source_digest);
      }
    } else {
      entry.error = graph.status();
      entry.failed_version = version;
    }
  }
  state_->watchers.Notify(name);
}

void GraphStore::BeginLoad(const std::string& name, StoredGraph stored, MonotonicTime last_use) {
  {
    MutexLock lock(&state_->mutex);
    const auto [entry, is_new] = state_->entries.try_emplace(name);
    if (!is_new) return;
    entry->second.stored = std::make_shared<const StoredGraph>(std::move(stored));
    entry->second.loading = true;
    entry->second.last_use = last_use;
  }
  state_->watchers.Notify(name);
}

void GraphStore::Touch(const std::string& name) {
  const MonotonicTime now = state_->options.clock->Now();
  MutexLock lock(&state_->mutex);
  if (const auto found = state_->entries.find(name); found != state_->entries.end()) found->second.last_use = now;
}

int64_t GraphStore::StoredVersion(const std::string& name) const {
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(name);
  return found != state_->entries.end() && found->second.stored ? found->second.stored->serving.version : 0;
}

void GraphStore::FinishLoad(const std::string& name, int64_t version,
                            StatusOr<std::shared_ptr<const PreparedGraph>> graph, std::vector<FeatureSet> feature_sets,
                            const std::map<std::string, Status>& lost) {
  std::shared_ptr<HostCopy> host;  // freed after the lock
  {
    MutexLock lock(&state_->mutex);
    Entry* const entry = state_->FindStored(name, version);
    if (entry == nullptr) return;
    entry->loading = false;
    if (graph.ok()) {
      // A set that was deleted while the copy came back.
      if (entry->host != nullptr) DropUnlisted(*entry->stored, &feature_sets);
      host = std::exchange(entry->host, nullptr);
      entry->stored = nullptr;
      entry->graph = *std::move(graph);
      // With those of an earlier load: what was damaged then is not on disk any more.
      for (const auto& [set_name, error] : lost) entry->lost_features[set_name] = error;
      entry->graph->TransferReservation(Account::kGraphs);
      for (FeatureSet& set : feature_sets) {
        const std::string set_name = set.name;
        entry->features[set_name] = HandleOf(std::move(set));
      }
    } else if (graph.status().code() != StatusCode::kResourceExhausted) {
      entry->stored = nullptr;
      host = std::exchange(entry->host, nullptr);
      entry->load_error = graph.status();
      if (entry->preparing_version == 0) {
        entry->error = graph.status();
        entry->failed_version = version;
      }
    }
  }
  state_->watchers.Notify(name);
}

void GraphStore::SetLostFeatures(const std::string& graph, int64_t graph_version, const std::string& feature_set,
                                 const Status& error) {
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(graph);
  if (found == state_->entries.end() || !found->second.graph || found->second.version() != graph_version) return;
  if (error.ok()) {
    found->second.lost_features.erase(feature_set);
  } else {
    found->second.lost_features[feature_set] = error;
  }
}

void GraphStore::PostponeLoad(const std::string& name, int64_t version) {
  {
    MutexLock lock(&state_->mutex);
    Entry* const entry = state_->FindStored(name, version);
    if (entry == nullptr) return;
    entry->loading = false;
  }
  state_->watchers.Notify(name);
}

void GraphStore::ReplaceStored(const std::string& name, int64_t version, StoredGraph other) {
  std::shared_ptr<HostCopy> host;  // freed after the lock
  {
    MutexLock lock(&state_->mutex);
    Entry* const entry = state_->FindStored(name, version);
    if (entry == nullptr) return;
    host = std::exchange(entry->host, nullptr);
    entry->stored = std::make_shared<const StoredGraph>(std::move(other));
  }
  state_->watchers.Notify(name);
}

void GraphStore::Adopt(std::shared_ptr<const PreparedGraph> graph, std::vector<FeatureSet> feature_sets,
                       std::map<std::string, Status> lost) {
  const std::string name = graph->parts().name;
  // What is replaced is freed after the lock.
  std::shared_ptr<const PreparedGraph> old_graph;
  std::shared_ptr<HostCopy> old_host;
  std::map<std::string, FeatureSetHandle> old_features;
  {
    MutexLock lock(&state_->mutex);
    Entry& entry = state_->entries[name];
    if (entry.version() >= graph->parts().version) return;
    Retire(entry);
    entry.stored = nullptr;
    old_host = std::exchange(entry.host, nullptr);
    entry.loading = false;
    entry.error = entry.load_error = OkStatus();
    old_graph = std::exchange(entry.graph, std::move(graph));
    old_features = std::exchange(entry.features, {});
    entry.lost_features = std::move(lost);
    entry.graph->TransferReservation(Account::kGraphs);
    for (FeatureSet& set : feature_sets) {
      const std::string set_name = set.name;
      entry.features[set_name] = HandleOf(std::move(set));
    }
  }
  state_->watchers.Notify(name);
}

void GraphStore::AdoptFeatures(int64_t graph_version, FeatureSet set) {
  const std::string graph = set.graph, name = set.name;
  FeatureSetHandle handle = HandleOf(std::move(set));  // freed after the lock, as is what it replaces
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(graph);
    if (found == state_->entries.end() || !found->second.graph || found->second.version() != graph_version) return;
    FeatureSetHandle& current = found->second.features[name];
    if (current != nullptr && current->version >= handle->version) return;
    Retire(current);
    current.swap(handle);
  }
  state_->watchers.Notify(graph);
}

bool GraphStore::Evict(const std::string& name, StoredGraph stored) {
  // Freed after the lock.
  std::shared_ptr<const PreparedGraph> graph;
  std::map<std::string, FeatureSetHandle> features;
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(name);
    if (found == state_->entries.end() || !IsOnlyIn(found->second, stored)) return false;
    Entry& entry = found->second;
    graph = std::exchange(entry.graph, nullptr);
    features = std::exchange(entry.features, {});
    entry.stored = std::make_shared<const StoredGraph>(std::move(stored));
  }
  state_->watchers.Notify(name);
  return true;
}

std::shared_ptr<HostCopy> GraphStore::LeaveDevice(const std::string& name, StoredGraph stored) {
  std::shared_ptr<HostCopy> copy;
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(name);
    if (found == state_->entries.end() || !IsOnlyIn(found->second, stored)) return nullptr;
    Entry& entry = found->second;
    std::vector<FeatureSetHandle> sets;
    for (auto& [set_name, set] : std::exchange(entry.features, {})) sets.push_back(std::move(set));
    copy = entry.host = std::make_shared<HostCopy>(std::exchange(entry.graph, nullptr), sets);
    entry.stored = std::make_shared<const StoredGraph>(std::move(stored));
  }
  state_->watchers.Notify(name);
  return copy;
}

std::shared_ptr<HostCopy> GraphStore::HostCopyOf(const std::string& name, int64_t version) const {
  MutexLock lock(&state_->mutex);
  Entry* const entry = state_->FindStored(name, version);
  return entry == nullptr ? nullptr : entry->host;
}

int64_t GraphStore::DropHostCopy(const std::string& name, int64_t version) {
  std::shared_ptr<HostCopy> host;  // freed after the lock
  {
    MutexLock lock(&state_->mutex);
    Entry* const entry = state_->FindStored(name, version);
    if (entry == nullptr || entry->host == nullptr) return 0;
    host = std::exchange(entry->host, nullptr);
    StoredGraph stored = *entry->stored;
    stored.serving.tier = Tier::kDisk;
    entry->stored = std::make_shared<const StoredGraph>(std::move(stored));
  }
  state_->watchers.Notify(name);
  return host->graph()->size_bytes() + host->feature_bytes();
}

std::vector<GraphUse> GraphStore::ByLastUse() const {
  std::vector<GraphUse> uses;
  {
    MutexLock lock(&state_->mutex);
    for (const auto& [name, entry] : state_->entries) {
      if (!entry.graph && !entry.host) continue;
      const PreparedGraph& graph = entry.graph ? *entry.graph : *entry.host->graph();
      int64_t device_bytes = entry.graph ? graph.device_bytes() : 0;
      for (const auto& [set_name, set] : entry.features) device_bytes += set->matrix->device_bytes();
      uses.push_back({name, entry.version(), graph.parts().pinned, !entry.graph, device_bytes, entry.last_use});
    }
  }
  std::stable_sort(uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.last_use < b.last_use; });
  return uses;
}

std::vector<std::string> GraphStore::ByUse() const {
  std::vector<std::pair<MonotonicTime, std::string>> uses;
  {
    MutexLock lock(&state_->mutex);
    for (const auto& [name, entry] : state_->entries) {
      if (entry.version() != 0) uses.emplace_back(entry.last_use, name);
    }
  }
  std::sort(uses.begin(), uses.end(), std::greater<>());
  std::vector<std::string> names;
  names.reserve(uses.size());
  for (auto& [last_use, name] : uses) names.push_back(std::move(name));
  return names;
}

void GraphStore::NotifyWatchers(const std::string& name) const { state_->watchers.Notify(name); }

StatusOr<GraphStatus> GraphStore::Get(const std::string& name) const {
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(name);
  if (found == state_->entries.end()) return NotFound("graph", name, "upload it first");
  return StatusOf(name, found->second);
}

std::vector<GraphStatus> GraphStore::List() const {
  std::vector<GraphStatus> all;
  MutexLock lock(&state_->mutex);
  for (const auto& [name, entry] : state_->entries) all.push_back(StatusOf(name, entry));
  return all;
}

Status GraphStore::Delete(const std::string& name, int64_t if_version) {
  std::map<std::string, Entry>::node_type deleted;  // freed after the lock
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(name);
    if (found == state_->entries.end()) return NotFound("graph", name);
    const int64_t version = found->second.version();
    if (if_version != 0 && if_version != version) return VersionDiffers("graph", name, version, if_version);
    Retire(found->second);
    deleted = state_->entries.extract(found);
  }
  state_->watchers.Notify(name);
  return OkStatus();
}

StatusOr<FeatureSetHandle> GraphStore::PutFeatures(const std::string& graph, const std::string& name,
                                                   int64_t graph_version, std::shared_ptr<const FeatureMatrix> matrix,
                                                   bool replace, int64_t if_version,
                                                   std::shared_ptr<Reservation> memory, std::string source_digest) {
  VICINAL_ASSIGN_OR_RETURN(VersionClaim claim, state_->options.feature_versions->Claim());
  FeatureSetHandle set, old;
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(graph);
    if (found == state_->entries.end()) return NotFound("graph", graph, "upload it first");
    Entry& entry = found->second;
    if (!entry.graph)
      return FailedPrecondition("GRAPH_NOT_READY", absl::StrCat(Quoted("graph", graph), " is not ready"));
    if (entry.version() != graph_version) {
      return Aborted("GRAPH_REPLACED", "graph", graph,
                     absl::StrCat(Quoted("graph", graph), " was replaced by version ", entry.version(),
                                  " in the meantime; send the features again"),
                     entry.version());
    }
    const auto current = entry.features.find(name);
    const bool exists = current != entry.features.end();
    if (exists && !replace) return AlreadyExists("feature set", name, "set replace to replace it");
    const int64_t version_now = exists ? current->second->version : 0;
    if (if_version != 0 && if_version != version_now)
      return VersionDiffers("feature set", name, version_now, if_version);
    if (!exists && static_cast<int64_t>(entry.features.size()) >= state_->options.max_feature_sets) {
      return TooMany("feature set", "max_feature_sets", state_->options.max_feature_sets);
    }
    set = state_->MakeFeatureSet(graph, name, std::move(claim), std::move(matrix), std::move(memory),
                                 std::move(source_digest));
    old = std::exchange(entry.features[name], set);
    entry.lost_features.erase(name);
    Retire(old);
  }
  state_->watchers.Notify(graph);
  return set;
}

Status GraphStore::DeleteFeatures(const std::string& graph, const std::string& name) {
  FeatureSetHandle deleted;
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(graph);
    if (found == state_->entries.end()) return NotFound("graph", graph);
    Entry& entry = found->second;
    if (entry.stored) {
      auto rest = std::make_shared<StoredGraph>(*entry.stored);
      const auto is_it = [&](const FeatureSetResource& set) { return set.name == name; };
      const bool was_lost = entry.lost_features.erase(name) > 0;
      if (std::erase_if(rest->feature_sets, is_it) == 0) return was_lost ? OkStatus() : NotFound("feature set", name);
      entry.stored = std::move(rest);
      if (entry.host != nullptr) entry.host->Forget(name);
    } else {
      const bool was_lost = entry.lost_features.erase(name) > 0;
      const auto set = entry.features.find(name);
      if (set == entry.features.end()) return was_lost ? OkStatus() : NotFound("feature set", name);
      deleted = std::move(set->second);
      Retire(deleted);
      entry.features.erase(set);
    }
  }
  state_->watchers.Notify(graph);
  return OkStatus();
}

StatusOr<GraphHandle> GraphStore::Find(const std::string& graph, int64_t graph_version, const std::string& feature_set,
                                       int64_t feature_set_version) const {
  const MonotonicTime now = state_->options.clock->Now();
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(graph);
  if (found == state_->entries.end()) return NotFound("graph", graph, "upload it first");
  found->second.last_use = now;
  return HandleIn(found->second, graph, graph_version, feature_set, feature_set_version);
}

StatusOr<GraphHandle> GraphStore::Peek(const std::string& graph, int64_t graph_version, const std::string& feature_set,
                                       int64_t feature_set_version) const {
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(graph);
  if (found == state_->entries.end()) return NotFound("graph", graph, "upload it first");
  return HandleIn(found->second, graph, graph_version, feature_set, feature_set_version);
}

bool GraphStore::Has(const std::string& graph, int64_t graph_version) const {
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(graph);
  return found != state_->entries.end() && found->second.version() == graph_version;
}

bool GraphStore::Has(const std::string& graph, int64_t graph_version, const std::string& feature_set,
                     int64_t feature_set_version) const {
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(graph);
  if (found == state_->entries.end() || found->second.version() != graph_version) return false;
  const Entry& entry = found->second;
  if (entry.stored) {
    return std::any_of(entry.stored->feature_sets.begin(), entry.stored->feature_sets.end(),
                       [&](const auto& set) { return set.name == feature_set && set.version == feature_set_version; });
  }
  const auto set = entry.features.find(feature_set);
  return set != entry.features.end() && set->second->version == feature_set_version;
}

std::unique_ptr<Subscription> GraphStore::Watch(const std::string& name, std::function<void()> callback) {
  // Shares the ownership of the store's state.
  return internal::Watch(std::shared_ptr<internal::Watchers>(state_, &state_->watchers), name, std::move(callback));
}

bool GraphStore::IsServing(const PreparedGraph& graph) const {
  const StatusOr<GraphHandle> current = Peek(graph.parts().name, 0, "", 0);
  return current.ok() && current->graph.get() == &graph;
}

int64_t GraphStore::largest_graph() const {
  MutexLock lock(&state_->mutex);
  int64_t most = 0;
  for (const auto& [name, entry] : state_->entries) {
    if (entry.graph) most = std::max<int64_t>(most, entry.graph->num_nodes());
  }
  return most;
}

}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// Names: preparation, deletion, feature sets, and what requests find under them. Versions that have to be loaded are in
// graph_store_loads.cc, those that leave memory in graph_store_tiers.cc.
#include "engine/store/graph_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/store/graph_entry.h"
#include "engine/store/graph_store_state.h"
#include "engine/store/version_errors.h"

namespace vicinal {
namespace {

FeatureSet Named(FeatureKind kind, const std::string& graph, const std::string& name) {
  FeatureSet set;
  set.kind = kind;
  set.graph = graph;
  set.name = name;
  return set;
}

// Of a set that serves, or that will when its graph is loaded.
std::optional<int64_t> VersionOf(const internal::GraphEntry& entry, const FeatureSetKey& key) {
  if (!entry.stored) {
    const auto set = entry.features.find(key);
    return set == entry.features.end() ? std::nullopt : std::optional(set->second->version);
  }
  for (const FeatureSetResource& set : entry.stored->feature_sets) {
    if (KeyOf(set) == key) return set.version;
  }
  return std::nullopt;
}

// NOT_FOUND; says so if the other kind has a set of that name.
Status NoFeatures(const internal::GraphEntry& entry, const FeatureSetKey& key) {
  const bool of_nodes = key.first == FeatureKind::kNodes;
  const FeatureSetKey other = {of_nodes ? FeatureKind::kEdges : FeatureKind::kNodes, key.second};
  if (!VersionOf(entry, other) && !entry.lost_features.contains(other))
    return NotFound(TypeName(key.first), key.second);
  return NotFound(TypeName(key.first), key.second,
                  of_nodes ? "an edge feature set has this name: to delete that, send the kind EDGES (--edges)"
                           : "a feature set of nodes has this name: to delete that, send the kind NODES (no --edges)");
}

}  // namespace

using internal::Aborted;
using internal::GraphEntry;
using internal::HandleIn;
using internal::Quoted;
using internal::Retire;
using internal::StatusOf;
using internal::VersionDiffers;

int64_t ServingVersion(const GraphStatus& status) {
  if (status.graph != nullptr) return status.graph->parts().version;
  return status.stored != nullptr ? status.stored->serving.version : 0;
}

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
    const GraphEntry* current = found == state_->entries.end() ? nullptr : &found->second;
    if (current && current->version() != 0 && !replace) {
      return AlreadyExists("graph", name, "set replace to replace it, or delete it first");
    }
    if (current && current->preparing_version != 0) {
      return Aborted(
          "PREPARATION_UNDER_WAY", "graph", name,
          absl::StrCat(Quoted("graph", name), " is being prepared from another upload; wait until that ends"),
          current->published_version());
    }
    const int64_t version_now = current ? current->published_version() : 0;
    if (if_version != 0 && if_version != version_now) return VersionDiffers("graph", name, version_now, if_version);
    if (!current) VICINAL_RETURN_IF_ERROR(state_->AdmitName(&evicted));
    GraphEntry& entry = state_->entries[name];
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
  std::map<FeatureSetKey, FeatureSetHandle> old_features;
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(name);
    if (found == state_->entries.end() || found->second.preparing_version != version) return;
    GraphEntry& entry = found->second;
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
      entry.deleted_sets.clear();
      entry.graph->TransferReservation(Account::kGraphs);
      if (default_features) {
        FeatureSet set = Named(FeatureKind::kNodes, name, kDefaultFeatureSet);
        set.matrix = std::move(default_features);
        set.memory = std::move(features_memory);
        set.source_digest = entry.graph->parts().source_digest;
        const FeatureSetKey key = KeyOf(set);
        entry.features[key] = state_->Number(std::move(set), std::move(features_version));
      }
    } else {
      entry.error = graph.status();
      entry.failed_version = version;
    }
  }
  state_->watchers.Notify(name);
}

StatusOr<GraphStatus> GraphStore::Get(const std::string& name) const {
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(name);
  if (found == state_->entries.end()) return NotFound("graph", name, "upload it first");
  return StatusOf(name, found->second);
}

void GraphStore::ForEach(const std::function<void(const GraphStatus& graph)>& see) const {
  std::vector<std::string> names;
  {
    MutexLock lock(&state_->mutex);
    names.reserve(state_->entries.size());
    for (const auto& [name, entry] : state_->entries) names.push_back(name);
  }
  for (const std::string& name : names) {
    if (const StatusOr<GraphStatus> graph = Get(name); graph.ok()) see(*graph);
  }
}

Status GraphStore::Delete(const std::string& name, int64_t if_version) {
  std::map<std::string, GraphEntry>::node_type deleted;  // freed after the lock
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(name);
    if (found == state_->entries.end()) return NotFound("graph", name);
    const int64_t version = found->second.published_version();
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
  FeatureSet set = Named(FeatureKind::kNodes, graph, name);
  set.matrix = std::move(matrix);
  set.memory = std::move(memory);
  set.source_digest = std::move(source_digest);
  return state_->Put(std::move(set), graph_version, replace, if_version);
}

StatusOr<FeatureSetHandle> GraphStore::PutEdgeFeatures(const std::string& graph, const std::string& name,
                                                       int64_t graph_version, std::shared_ptr<const EdgeMatrix> edges,
                                                       bool replace, int64_t if_version,
                                                       std::shared_ptr<Reservation> memory, std::string source_digest) {
  FeatureSet set = Named(FeatureKind::kEdges, graph, name);
  set.edges = std::move(edges);
  set.memory = std::move(memory);
  set.source_digest = std::move(source_digest);
  return state_->Put(std::move(set), graph_version, replace, if_version);
}

Status GraphStore::DeleteFeatures(const std::string& graph, const std::string& name, FeatureKind kind,
                                  int64_t if_version) {
  const FeatureSetKey key = {kind, name};
  FeatureSetHandle deleted;
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(graph);
    if (found == state_->entries.end()) return NotFound("graph", graph);
    GraphEntry& entry = found->second;
    const std::optional<int64_t> version = VersionOf(entry, key);
    if (!version) return entry.lost_features.erase(key) > 0 ? OkStatus() : NoFeatures(entry, key);
    if (if_version != 0 && if_version != *version) return VersionDiffers(TypeName(kind), name, *version, if_version);
    entry.lost_features.erase(key);
    if (entry.stored) {
      auto rest = std::make_shared<StoredGraph>(*entry.stored);
      std::erase_if(rest->feature_sets, [&](const FeatureSetResource& set) { return KeyOf(set) == key; });
      entry.stored = std::move(rest);
      entry.deleted_sets.insert(key);
      if (entry.host != nullptr) entry.host->Forget(key);
    } else {
      const auto set = entry.features.find(key);
      deleted = std::move(set->second);
      Retire(deleted);
      entry.features.erase(set);
    }
  }
  state_->watchers.Notify(graph);
  return OkStatus();
}

StatusOr<GraphHandle> GraphStore::Find(const std::string& graph, int64_t graph_version, const std::string& feature_set,
                                       int64_t feature_set_version, const WantedEdges& edges) const {
  const MonotonicTime now = state_->options.clock->Now();
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(graph);
  if (found == state_->entries.end()) return NotFound("graph", graph, "upload it first");
  found->second.last_use = now;
  return HandleIn(found->second, graph, graph_version, feature_set, feature_set_version, edges);
}

StatusOr<GraphHandle> GraphStore::Peek(const std::string& graph, int64_t graph_version, const std::string& feature_set,
                                       int64_t feature_set_version, const WantedEdges& edges) const {
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(graph);
  if (found == state_->entries.end()) return NotFound("graph", graph, "upload it first");
  return HandleIn(found->second, graph, graph_version, feature_set, feature_set_version, edges);
}

bool GraphStore::Has(const std::string& graph, int64_t graph_version) const {
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(graph);
  return found != state_->entries.end() && found->second.version() == graph_version;
}

bool GraphStore::Has(const std::string& graph, int64_t graph_version, const std::string& feature_set,
                     int64_t feature_set_version, FeatureKind kind) const {
  const FeatureSetKey key = {kind, feature_set};
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(graph);
  if (found == state_->entries.end() || found->second.version() != graph_version) return false;
  const GraphEntry& entry = found->second;
  if (entry.stored) {
    return std::any_of(entry.stored->feature_sets.begin(), entry.stored->feature_sets.end(),
                       [&](const auto& set) { return KeyOf(set) == key && set.version == feature_set_version; });
  }
  const auto set = entry.features.find(key);
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

void GraphStore::NotifyWatchers(const std::string& name) const { state_->watchers.Notify(name); }

}  // namespace vicinal

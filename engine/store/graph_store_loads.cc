// SPDX-License-Identifier: Apache-2.0
// GraphStore: versions that have to be loaded, from their claim to the moment at which they serve, and what a replica
// takes over from another server.
#include <memory>
#include <utility>

#include "engine/store/graph_entry.h"
#include "engine/store/graph_store.h"
#include "engine/store/graph_store_state.h"

namespace vicinal {
using internal::GraphEntry;
using internal::HandleOf;
using internal::HasAllSets;
using internal::Retire;

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

int64_t GraphStore::StoredVersion(const std::string& name) const {
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(name);
  return found != state_->entries.end() && found->second.stored ? found->second.stored->serving.version : 0;
}

bool GraphStore::FinishLoad(const std::string& name, int64_t version, const std::shared_ptr<const PreparedGraph>& graph,
                            std::vector<FeatureSet> feature_sets, const std::map<FeatureSetKey, Status>& lost) {
  std::shared_ptr<HostCopy> host;  // freed after the lock, as are sets that were deleted
  {
    MutexLock lock(&state_->mutex);
    GraphEntry* const entry = state_->FindStored(name, version);
    if (entry == nullptr) return true;
    if (!HasAllSets(*entry->stored, feature_sets, lost)) return false;
    entry->loading = false;
    host = std::exchange(entry->host, nullptr);
    entry->stored = nullptr;
    entry->graph = graph;
    // With those of an earlier load: what was damaged then is not on disk any more.
    for (const auto& [key, error] : lost) entry->lost_features[key] = error;
    entry->graph->TransferReservation(Account::kGraphs);
    for (FeatureSet& set : feature_sets) {
      const FeatureSetKey key = KeyOf(set);
      if (!entry->deleted_sets.contains(key)) entry->features[key] = HandleOf(std::move(set));
    }
    entry->deleted_sets.clear();
  }
  state_->watchers.Notify(name);
  return true;
}

void GraphStore::FailLoad(const std::string& name, int64_t version, const Status& error) {
  std::shared_ptr<HostCopy> host;  // freed after the lock
  {
    MutexLock lock(&state_->mutex);
    GraphEntry* const entry = state_->FindStored(name, version);
    if (entry == nullptr) return;
    entry->loading = false;
    if (error.code() != StatusCode::kResourceExhausted) {
      entry->stored = nullptr;
      host = std::exchange(entry->host, nullptr);
      entry->load_error = error;
      entry->unloaded_version = version;
      if (entry->preparing_version == 0) {
        entry->error = error;
        entry->failed_version = version;
      }
    }
  }
  state_->watchers.Notify(name);
}

void GraphStore::SetLostFeatures(const std::string& graph, int64_t graph_version, const std::string& feature_set,
                                 const Status& error, FeatureKind kind) {
  MutexLock lock(&state_->mutex);
  const auto found = state_->entries.find(graph);
  if (found == state_->entries.end() || !found->second.graph || found->second.version() != graph_version) return;
  if (error.ok()) {
    found->second.lost_features.erase({kind, feature_set});
  } else {
    found->second.lost_features[{kind, feature_set}] = error;
  }
}

void GraphStore::PostponeLoad(const std::string& name, int64_t version) {
  {
    MutexLock lock(&state_->mutex);
    GraphEntry* const entry = state_->FindStored(name, version);
    if (entry == nullptr) return;
    entry->loading = false;
  }
  state_->watchers.Notify(name);
}

void GraphStore::ReplaceStored(const std::string& name, int64_t version, StoredGraph other) {
  std::shared_ptr<HostCopy> host;  // freed after the lock
  {
    MutexLock lock(&state_->mutex);
    GraphEntry* const entry = state_->FindStored(name, version);
    if (entry == nullptr) return;
    host = std::exchange(entry->host, nullptr);
    if (other.serving.version != version) entry->deleted_sets.clear();
    entry->stored = std::make_shared<const StoredGraph>(std::move(other));
  }
  state_->watchers.Notify(name);
}

void GraphStore::Adopt(std::shared_ptr<const PreparedGraph> graph, std::vector<FeatureSet> feature_sets,
                       std::map<FeatureSetKey, Status> lost) {
  const std::string name = graph->parts().name;
  // What is replaced is freed after the lock.
  std::shared_ptr<const PreparedGraph> old_graph;
  std::shared_ptr<HostCopy> old_host;
  std::map<FeatureSetKey, FeatureSetHandle> old_features;
  {
    MutexLock lock(&state_->mutex);
    GraphEntry& entry = state_->entries[name];
    if (entry.version() >= graph->parts().version) return;
    Retire(entry);
    entry.stored = nullptr;
    old_host = std::exchange(entry.host, nullptr);
    entry.loading = false;
    entry.error = entry.load_error = OkStatus();
    old_graph = std::exchange(entry.graph, std::move(graph));
    old_features = std::exchange(entry.features, {});
    entry.lost_features = std::move(lost);
    entry.deleted_sets.clear();
    entry.graph->TransferReservation(Account::kGraphs);
    for (FeatureSet& set : feature_sets) {
      const FeatureSetKey key = KeyOf(set);
      entry.features[key] = HandleOf(std::move(set));
    }
  }
  state_->watchers.Notify(name);
}

void GraphStore::AdoptFeatures(int64_t graph_version, FeatureSet set) {
  const std::string graph = set.graph;
  const FeatureSetKey key = KeyOf(set);
  FeatureSetHandle handle = HandleOf(std::move(set));  // freed after the lock, as is what it replaces
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(graph);
    if (found == state_->entries.end() || !found->second.graph || found->second.version() != graph_version) return;
    FeatureSetHandle& current = found->second.features[key];
    if (current != nullptr && current->version >= handle->version) return;
    Retire(current);
    current.swap(handle);
  }
  state_->watchers.Notify(graph);
}

}  // namespace vicinal

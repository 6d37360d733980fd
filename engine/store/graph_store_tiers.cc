// SPDX-License-Identifier: Apache-2.0
// GraphStore: versions that leave memory or the device, in the order in which graphs were used.
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "engine/store/graph_entry.h"
#include "engine/store/graph_store.h"
#include "engine/store/graph_store_state.h"

namespace vicinal {
using internal::GraphEntry;
using internal::IsOnlyIn;

void GraphStore::Touch(const std::string& name) {
  const MonotonicTime now = state_->options.clock->Now();
  MutexLock lock(&state_->mutex);
  if (const auto found = state_->entries.find(name); found != state_->entries.end()) found->second.last_use = now;
}

bool GraphStore::Evict(const std::string& name, StoredGraph stored) {
  // Freed after the lock.
  std::shared_ptr<const PreparedGraph> graph;
  std::map<FeatureSetKey, FeatureSetHandle> features;
  {
    MutexLock lock(&state_->mutex);
    const auto found = state_->entries.find(name);
    if (found == state_->entries.end() || !IsOnlyIn(found->second, stored)) return false;
    GraphEntry& entry = found->second;
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
    GraphEntry& entry = found->second;
    std::vector<FeatureSetHandle> sets;
    for (auto& [key, set] : std::exchange(entry.features, {})) sets.push_back(std::move(set));
    copy = entry.host = std::make_shared<HostCopy>(std::exchange(entry.graph, nullptr), sets);
    entry.stored = std::make_shared<const StoredGraph>(std::move(stored));
  }
  state_->watchers.Notify(name);
  return copy;
}

std::shared_ptr<HostCopy> GraphStore::HostCopyOf(const std::string& name, int64_t version) const {
  MutexLock lock(&state_->mutex);
  GraphEntry* const entry = state_->FindStored(name, version);
  return entry == nullptr ? nullptr : entry->host;
}

int64_t GraphStore::DropHostCopy(const std::string& name, int64_t version) {
  std::shared_ptr<HostCopy> host;  // freed after the lock
  {
    MutexLock lock(&state_->mutex);
    GraphEntry* const entry = state_->FindStored(name, version);
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
      for (const auto& [key, set] : entry.features) device_bytes += set->device_bytes();
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

}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// One map under one lock; every method of GraphStore reads or changes a few words in it. Invariants: large objects are
// moved out of the map and freed after the lock; watchers are called after it, too. No memory is reserved under the
// lock, because evictors ask the store which plans are current. The lock order is store, PreparedGraph, MemoryBudget.
#ifndef VICINAL_ENGINE_STORE_GRAPH_STORE_STATE_H_
#define VICINAL_ENGINE_STORE_GRAPH_STORE_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/store/graph_entry.h"
#include "engine/store/graph_store.h"
#include "engine/store/version_source.h"
#include "engine/store/watchers.h"

namespace vicinal {

struct GraphStore::State {
  explicit State(Options given);

  // `set` as a new version.
  FeatureSetHandle Number(FeatureSet set, VersionClaim version) VICINAL_REQUIRES(mutex);
  // GraphStore::PutFeatures and PutEdgeFeatures.
  StatusOr<FeatureSetHandle> Put(FeatureSet given, int64_t graph_version, bool replace, int64_t if_version);
  // Null unless that version has to be loaded.
  internal::GraphEntry* FindStored(const std::string& name, int64_t version) VICINAL_REQUIRES(mutex);
  // Makes place for one more name by evicting one whose preparation failed; appends that to `evicted`.
  Status AdmitName(std::string* evicted) VICINAL_REQUIRES(mutex);

  VersionSource own_graph_versions, own_feature_versions;  // before `entries`, which hold claims
  Options options;
  internal::Watchers watchers;
  mutable Mutex mutex;
  std::map<std::string, internal::GraphEntry> entries VICINAL_GUARDED_BY(mutex);
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_STORE_GRAPH_STORE_STATE_H_

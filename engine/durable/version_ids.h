// SPDX-License-Identifier: Apache-2.0
// Names of versions in the state directory, by what the stores know of them.
#ifndef VICINAL_ENGINE_DURABLE_VERSION_IDS_H_
#define VICINAL_ENGINE_DURABLE_VERSION_IDS_H_

#include <cstdint>
#include <string>

#include "engine/state/names.h"
#include "engine/store/feature_set.h"

namespace vicinal::durable {

inline state::VersionId GraphId(const std::string& name, int64_t version) {
  return {state::Store::kGraphs, name, version, "", 0};
}
inline state::VersionId ModelId(const std::string& name, int64_t version) {
  return {state::Store::kModels, name, version, "", 0};
}
inline state::Store StoreOf(FeatureKind kind) {
  return kind == FeatureKind::kNodes ? state::Store::kFeatures : state::Store::kEdgeFeatures;
}
// REQUIRES: state::BelongsToGraph(store).
inline FeatureKind KindOf(state::Store store) {
  return store == state::Store::kFeatures ? FeatureKind::kNodes : FeatureKind::kEdges;
}
inline state::VersionId FeaturesId(const std::string& graph, int64_t graph_version, const std::string& name,
                                   int64_t version, FeatureKind kind = FeatureKind::kNodes) {
  return {StoreOf(kind), name, version, graph, graph_version};
}
// The key of a feature set in its graph. REQUIRES: state::BelongsToGraph(id.store).
inline FeatureSetKey KeyOf(const state::VersionId& id) { return {KindOf(id.store), id.name}; }

// Whether publishing `later` makes `earlier` superfluous: an earlier version of it, or of its graph's sets.
inline bool Replaces(const state::VersionId& later, const state::VersionId& earlier) {
  if (later.store == state::Store::kGraphs && state::BelongsToGraph(earlier.store)) {
    return earlier.graph == later.name && earlier.graph_version < later.version;
  }
  return earlier.store == later.store && earlier.name == later.name && earlier.graph == later.graph &&
         earlier.graph_version == later.graph_version && earlier.version < later.version;
}

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_VERSION_IDS_H_

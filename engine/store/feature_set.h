// SPDX-License-Identifier: Apache-2.0
// A version of a feature set of a graph: of its nodes, or of its edges.
#ifndef VICINAL_ENGINE_STORE_FEATURE_SET_H_
#define VICINAL_ENGINE_STORE_FEATURE_SET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/api/feature_kind.h"
#include "engine/api/resources.h"
#include "engine/base/clock.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepared/edge_matrix.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

struct FeatureSet {
  FeatureKind kind = FeatureKind::kNodes;
  std::string graph;
  std::string name;
  int64_t version = 0;
  WallTime create_time{};
  std::string source_digest;  // of what the upload was made from; opaque
  // One of them, by `kind`; each copy keeps `memory` alive.
  std::shared_ptr<const FeatureMatrix> matrix;
  std::shared_ptr<const EdgeMatrix> edges;
  std::shared_ptr<Reservation> memory;  // of the above; changed by the store only; null: not counted

  int64_t size_bytes() const { return edges != nullptr ? edges->size_bytes() : matrix->size_bytes(); }
  int64_t device_bytes() const { return edges != nullptr ? edges->device_bytes() : matrix->device_bytes(); }
};
using FeatureSetHandle = std::shared_ptr<const FeatureSet>;

// What names a set of a graph.
using FeatureSetKey = std::pair<FeatureKind, std::string>;
inline FeatureSetKey KeyOf(const FeatureSet& set) { return {set.kind, set.name}; }
inline FeatureSetKey KeyOf(const FeatureSetResource& set) { return {set.kind, set.name}; }

inline constexpr char kDefaultFeatureSet[] = "default";

}  // namespace vicinal

#endif  // VICINAL_ENGINE_STORE_FEATURE_SET_H_

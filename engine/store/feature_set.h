// SPDX-License-Identifier: Apache-2.0
// A version of a feature set of a graph.
#ifndef VICINAL_ENGINE_STORE_FEATURE_SET_H_
#define VICINAL_ENGINE_STORE_FEATURE_SET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/clock.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

struct FeatureSet {
  std::string graph;
  std::string name;
  int64_t version = 0;
  WallTime create_time{};
  std::string source_digest;                    // of what the upload was made from; opaque
  std::shared_ptr<const FeatureMatrix> matrix;  // each copy keeps `memory` alive
  std::shared_ptr<Reservation> memory;          // of the matrix; changed by the store only; null: not counted
};
using FeatureSetHandle = std::shared_ptr<const FeatureSet>;

}  // namespace vicinal

#endif  // VICINAL_ENGINE_STORE_FEATURE_SET_H_

// SPDX-License-Identifier: Apache-2.0
// Small prepared graphs and feature matrices for tests of the store.
#ifndef VICINAL_TESTS_ENGINE_STORE_STORE_TESTING_H_
#define VICINAL_TESTS_ENGINE_STORE_STORE_TESTING_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/prepared/prepared_graph.h"
#include "tests/support/generators.h"

namespace vicinal::testing {

inline std::shared_ptr<const PreparedGraph> MakeGraph(const std::string& name, int64_t version, Device* device,
                                                      int64_t num_nodes = 10) {
  PreparedGraph::Parts parts;
  parts.name = name;
  parts.version = version;
  parts.csr = BuildCsrByTarget(UniformGraph(num_nodes, 3 * num_nodes, 1));
  parts.permutation = Permutation::Identity(num_nodes);
  return std::make_shared<const PreparedGraph>(std::move(parts), device);
}

// [rows, 1]
inline std::shared_ptr<const FeatureMatrix> MakeMatrix(Device* device, int64_t rows = 10) {
  HostFeatures features;
  features.rows = rows;
  features.cols = 1;
  features.dense.assign(rows, 1.0f);
  return *FeatureMatrix::Upload(features, *device);
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_STORE_STORE_TESTING_H_

// SPDX-License-Identifier: Apache-2.0
// Counts the additional bytes that a graph will hold for a plan: adjacencies, their layouts, degree scales,
// features of edges on the device and their means. Each is counted once, and not at all if the graph has it already.
#ifndef VICINAL_ENGINE_PLAN_BUILD_DERIVED_BYTES_H_
#define VICINAL_ENGINE_PLAN_BUILD_DERIVED_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/prepared/prepared_graph.h"

namespace vicinal::internal {

class DerivedBytes {
 public:
  // `graph` must outlive it.
  explicit DerivedBytes(const PreparedGraph& graph) : graph_(graph) {}

  void AddAdjacency(const AdjacencySpec& spec, const AdjacencyShape& shape);
  void AddDegreeScale(SelfLoops loops);
  void AddEdgeFeatures();
  void AddMeanEdgeFeatures();
  // `bytes`: upper bound (Kernel::LayoutBytesBound).
  void AddLayout(const AdjacencySpec& spec, std::string_view kernel, std::string_view name, int64_t bytes);

  int64_t total() const { return total_; }

 private:
  struct Layout {
    AdjacencySpec spec;  // canonical
    std::string kernel;
    std::string name;
    friend bool operator==(const Layout&, const Layout&) = default;
  };

  const PreparedGraph& graph_;
  std::vector<AdjacencySpec> adjacencies_;  // canonical
  std::vector<SelfLoops> degree_scales_;
  std::vector<Layout> layouts_;
  bool edge_features_ = false;
  bool mean_edge_features_ = false;
  int64_t total_ = 0;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_DERIVED_BYTES_H_

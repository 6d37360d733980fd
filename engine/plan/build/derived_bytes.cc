// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/build/derived_bytes.h"

#include <algorithm>
#include <utility>

namespace vicinal::internal {
namespace {

// Adds `item` to `seen`; false if it was there already.
template <class T>
bool Note(T item, std::vector<T>* seen) {
  if (std::find(seen->begin(), seen->end(), item) != seen->end()) return false;
  seen->push_back(std::move(item));
  return true;
}

}  // namespace

void DerivedBytes::AddAdjacency(const AdjacencySpec& spec, const AdjacencyShape& shape) {
  if (graph_.Holds(spec)) return;
  if (Note(CanonicalSpec(spec, graph_.weighted()), &adjacencies_)) total_ += shape.bytes;
}

void DerivedBytes::AddDegreeScale(SelfLoops loops) {
  if (graph_.Holds(loops)) return;
  // The graph keeps one vector for both ways of having one loop per node.
  const SelfLoops kept = loops == SelfLoops::kAddRemaining ? SelfLoops::kReplace : loops;
  if (Note(kept, &degree_scales_)) total_ += graph_.num_nodes() * static_cast<int64_t>(sizeof(float));
}

void DerivedBytes::AddEdgeFeatures() {
  if (edge_features_ || graph_.HoldsEdgeFeatures()) return;
  edge_features_ = true;
  total_ += graph_.num_edges() * graph_.edge_feature_width() * static_cast<int64_t>(sizeof(float));
}

void DerivedBytes::AddMeanEdgeFeatures() {
  if (mean_edge_features_ || graph_.HoldsMeanEdgeFeatures()) return;
  mean_edge_features_ = true;
  total_ += graph_.num_nodes() * graph_.edge_feature_width() * static_cast<int64_t>(sizeof(float));
}

void DerivedBytes::AddLayout(const AdjacencySpec& spec, std::string_view kernel, std::string_view name, int64_t bytes) {
  if (graph_.Holds(spec, kernel, name)) return;
  if (Note(Layout{CanonicalSpec(spec, graph_.weighted()), std::string(kernel), std::string(name)}, &layouts_)) {
    total_ += bytes;
  }
}

}  // namespace vicinal::internal

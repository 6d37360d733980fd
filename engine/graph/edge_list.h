// SPDX-License-Identifier: Apache-2.0
// A graph as clients send it: N nodes and E directed edges in columns, with optional weights. Messages flow source ->
// target.
#ifndef VICINAL_ENGINE_GRAPH_EDGE_LIST_H_
#define VICINAL_ENGINE_GRAPH_EDGE_LIST_H_

#include <cstdint>
#include <vector>

namespace vicinal {

using NodeId = int32_t;  // N < 2^31
using EdgeId = int64_t;

struct EdgeList {
  int64_t num_nodes = 0;
  std::vector<NodeId> source;  // [E]
  std::vector<NodeId> target;  // [E]
  std::vector<float> weight;   // [E], or empty: unweighted

  int64_t num_edges() const { return static_cast<int64_t>(source.size()); }
  bool weighted() const { return !weight.empty(); }
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_GRAPH_EDGE_LIST_H_

// SPDX-License-Identifier: Apache-2.0
// A partition of a graph's nodes into communities, and how good it is. reorder/ finds them, profile/ describes them.
#ifndef VICINAL_ENGINE_GRAPH_COMMUNITIES_H_
#define VICINAL_ENGINE_GRAPH_COMMUNITIES_H_

#include <cstdint>
#include <vector>

#include "engine/graph/edge_list.h"

namespace vicinal {

// Every node is in exactly one community; a node without edges is one of its own.
struct Communities {
  int64_t count = 0;
  std::vector<NodeId> of_node;  // [N], in [0, count)
  std::vector<NodeId> sizes;    // [count], nodes; each at least 1
  // Modularity (Newman and Girvan 2004) of the graph taken as undirected, edges counted as often as they stand:
  // Q = sum over communities c of e_c / E - (d_c / 2E)^2, with e_c the edges inside c (self-loops too), d_c the sum of
  // in-degree and out-degree of its nodes, E all edges. In [-0.5, 1); 0 where there are no edges.
  double modularity = 0.0;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_GRAPH_COMMUNITIES_H_

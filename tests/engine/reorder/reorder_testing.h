// SPDX-License-Identifier: Apache-2.0
// What the tests of orders share: a graph with planted communities, and what makes a numbering a permutation and a
// reversed breadth-first search.
#ifndef VICINAL_TESTS_ENGINE_REORDER_REORDER_TESTING_H_
#define VICINAL_TESTS_ENGINE_REORDER_REORDER_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/graph/edge_list.h"
#include "engine/reorder/order.h"

namespace vicinal::testing {

// A stochastic block model: `blocks` blocks of `size` nodes; each node sends about `inside` edges into its own block
// and `outside` anywhere. Node v is of block v / size.
inline EdgeList PlantedGraph(int64_t blocks, int64_t size, int64_t inside, int64_t outside, uint32_t seed) {
  std::mt19937 random(seed);
  EdgeList edges;
  edges.num_nodes = blocks * size;
  for (int64_t v = 0; v < edges.num_nodes; ++v) {
    for (int64_t i = 0; i < inside + outside; ++i) {
      const int64_t u = i < inside ? v / size * size + random() % size : random() % edges.num_nodes;
      edges.source.push_back(static_cast<NodeId>(v));
      edges.target.push_back(static_cast<NodeId>(u));
    }
  }
  return edges;
}

inline void ExpectPermutation(const Permutation& permutation, int64_t num_nodes) {
  ASSERT_EQ(permutation.size(), num_nodes);
  std::vector<bool> seen(num_nodes, false);
  for (NodeId v = 0; v < num_nodes; ++v) {
    const NodeId at = permutation.ToNew(v);
    ASSERT_TRUE(at >= 0 && at < num_nodes && !seen[at]);
    seen[at] = true;
    ASSERT_EQ(permutation.ToOld(at), v);
  }
}

// Neighbours of each node in either direction, as often as the edges stand.
inline std::vector<std::vector<NodeId>> NeighbourLists(const EdgeList& edges) {
  std::vector<std::vector<NodeId>> neighbours(edges.num_nodes);
  for (int64_t e = 0; e < edges.num_edges(); ++e) {
    neighbours[edges.source[e]].push_back(edges.target[e]);
    neighbours[edges.target[e]].push_back(edges.source[e]);
  }
  return neighbours;
}

// `order` read from its end must be a breadth-first search of the edges among its own nodes, component after component:
// parents (the earliest neighbour) never fall within a component, and children of one parent come by rising degree.
inline void ExpectReversedBreadthFirst(const std::vector<NodeId>& order,
                                       const std::vector<std::vector<NodeId>>& neighbours) {
  const int64_t n = static_cast<int64_t>(order.size());
  std::vector<int64_t> position(neighbours.size(), -1);
  for (int64_t i = 0; i < n; ++i) position[order[i]] = n - 1 - i;
  int64_t last_parent = -1;
  for (int64_t at = 0; at < n; ++at) {
    const NodeId v = order[n - 1 - at];
    int64_t parent = at;
    for (const NodeId u : neighbours[v]) {
      if (position[u] >= 0) parent = std::min(parent, position[u]);
    }
    if (parent < at) {
      ASSERT_GE(parent, last_parent) << "node " << v;
      if (parent == last_parent && at - 1 > parent) {
        ASSERT_LE(neighbours[order[n - at]].size(), neighbours[v].size()) << "node " << v;
      }
    }
    last_parent = parent;
  }
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_REORDER_REORDER_TESTING_H_

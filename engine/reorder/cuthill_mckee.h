// SPDX-License-Identifier: Apache-2.0
// Reverse Cuthill-McKee numbering, of a whole graph or inside the parts of a partition. Private to this folder.
#ifndef VICINAL_ENGINE_REORDER_CUTHILL_MCKEE_H_
#define VICINAL_ENGINE_REORDER_CUTHILL_MCKEE_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/thread_pool.h"
#include "engine/reorder/undirected.h"

namespace vicinal::internal {

// All nodes in reverse Cuthill-McKee order: the node that comes first, the one that comes second, ... Components follow
// each other by their lowest id. The same result whatever `pool` (null: the calling thread alone).
std::vector<NodeId> NumberWhole(const UndirectedGraph& graph, ThreadPool* pool);

// A partition of the nodes, its parts in the order they shall lie in. Part p's nodes are
// member[begin[p] .. begin[p + 1]), ascending, and part_of says p of each of them.
struct Parts {
  std::vector<int64_t> begin;   // [parts + 1]
  std::vector<NodeId> member;   // [N]
  std::vector<NodeId> part_of;  // [N]
};
// Parts from the part of each node, in [0, count).
Parts PartsFrom(std::vector<NodeId> part_of, int64_t count);

// The parts one after the other, each numbered as NumberWhole numbers a graph, looking at the edges inside it alone
// (but for degrees, which are those in the graph). Parts are numbered in parallel; the result is the same whatever
// `pool` (null: the calling thread alone).
std::vector<NodeId> NumberInsideParts(const UndirectedGraph& graph, const Parts& parts, ThreadPool* pool);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_REORDER_CUTHILL_MCKEE_H_

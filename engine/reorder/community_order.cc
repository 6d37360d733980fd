// SPDX-License-Identifier: Apache-2.0
// Invariant: at each level of the dendrogram, ranks put the children of one parent side by side, in their parent's
// place; so parts, which are whole subtrees, are consecutive too. Cost beside the communities' own: O(N), and reverse
// Cuthill-McKee inside the parts.
#include "engine/reorder/community_order.h"

#include <numeric>
#include <utility>

#include "engine/reorder/cuthill_mckee.h"
#include "engine/reorder/louvain.h"

namespace vicinal::internal {
namespace {

// The nodes of one level by rank of their parent, then by their number: old ids in their new order.
std::vector<NodeId> OrderByParent(const std::vector<NodeId>& parent, const std::vector<NodeId>& parents_in_order) {
  std::vector<NodeId> rank_of_parent(parents_in_order.size());
  for (size_t r = 0; r < parents_in_order.size(); ++r) rank_of_parent[parents_in_order[r]] = static_cast<NodeId>(r);
  std::vector<NodeId> part_of(parent.size());
  for (size_t v = 0; v < parent.size(); ++v) part_of[v] = rank_of_parent[parent[v]];
  return PartsFrom(std::move(part_of), static_cast<int64_t>(parents_in_order.size())).member;
}

// The nodes of level 1 in the order of the dendrogram.
std::vector<NodeId> OrderOfFirstLevel(const Dendrogram& dendrogram) {
  std::vector<NodeId> order(dendrogram.communities.count);
  std::iota(order.begin(), order.end(), 0);
  for (size_t level = dendrogram.parent.size() - 1; level >= 1; --level) {
    order = OrderByParent(dendrogram.parent[level], order);
  }
  return order;
}

// For each node of level 1 the root of the largest subtree above it with at most `most` nodes of the graph, as
// (level, node of that level).
std::vector<std::pair<size_t, NodeId>> Subtrees(const Dendrogram& dendrogram, int64_t most) {
  const size_t levels = dendrogram.parent.size();
  const auto nodes_above = [&](size_t level) {
    return level + 1 < levels ? dendrogram.parent[level + 1].size() : dendrogram.communities.sizes.size();
  };
  std::vector<int64_t> size(nodes_above(0), 0);
  for (const NodeId p : dendrogram.parent[0]) ++size[p];
  std::vector<NodeId> above(size.size());  // ancestor at the current level
  std::iota(above.begin(), above.end(), 0);
  std::vector<std::pair<size_t, NodeId>> root(size.size());
  for (size_t i = 0; i < root.size(); ++i) root[i] = {1, static_cast<NodeId>(i)};
  for (size_t level = 1; level < levels; ++level) {
    std::vector<int64_t> larger(nodes_above(level), 0);
    for (size_t i = 0; i < size.size(); ++i) larger[dendrogram.parent[level][i]] += size[i];
    for (size_t i = 0; i < root.size(); ++i) {
      above[i] = dendrogram.parent[level][above[i]];
      if (larger[above[i]] <= most) root[i] = {level + 1, above[i]};
    }
    size = std::move(larger);
  }
  return root;
}

// Parts of the graph's nodes: the subtrees, in the order of the dendrogram.
Parts MakeParts(const Dendrogram& dendrogram, int64_t block_nodes) {
  const std::vector<std::pair<size_t, NodeId>> subtree = Subtrees(dendrogram, block_nodes);
  std::vector<NodeId> part_of_first(subtree.size());
  NodeId count = 0;
  const std::pair<size_t, NodeId>* last = nullptr;
  for (const NodeId i : OrderOfFirstLevel(dendrogram)) {
    if (last != nullptr && *last != subtree[i]) ++count;
    last = &subtree[i];
    part_of_first[i] = count;
  }
  std::vector<NodeId> part_of(dendrogram.parent[0].size());
  for (size_t v = 0; v < part_of.size(); ++v) part_of[v] = part_of_first[dendrogram.parent[0][v]];
  return PartsFrom(std::move(part_of), last == nullptr ? 0 : count + 1);
}

}  // namespace

CommunityOrder NumberCommunities(const UndirectedGraph& graph, int64_t block_nodes, ThreadPool* pool,
                                 const GivenUp& given_up) {
  Dendrogram dendrogram = FindDendrogram(graph, pool, given_up);
  if (IsGivenUp(given_up)) {
    std::vector<NodeId> as_sent(graph.num_nodes());
    std::iota(as_sent.begin(), as_sent.end(), 0);
    return {std::move(dendrogram.communities), std::move(as_sent)};
  }
  const Parts parts = MakeParts(dendrogram, block_nodes);
  return {std::move(dendrogram.communities), NumberInsideParts(graph, parts, pool)};
}

}  // namespace vicinal::internal

// SPDX-License-Identifier: Apache-2.0
// Numbering level by level, from either side and with several threads, of whole graphs and inside parts, against the
// definition: a breadth-first search node by node.
#include "engine/reorder/cuthill_mckee.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/engine/graph/graph_testing.h"
#include "tests/engine/reorder/reorder_testing.h"
#include "tests/support/generators.h"

namespace vicinal::internal {
namespace {

using testing::PlantedGraph;
using testing::RandomEdges;

// Of the nodes of one part.
class PlainNumbering {
 public:
  PlainNumbering(const UndirectedGraph& graph, const std::vector<NodeId>& part_of, NodeId part)
      : graph_(graph), part_of_(part_of), part_(part) {}

  std::vector<NodeId> Run() {
    std::vector<bool> placed(graph_.num_nodes(), false);
    std::vector<NodeId> order;
    for (NodeId v = 0; v < graph_.num_nodes(); ++v) {
      if (part_of_[v] != part_ || placed[v]) continue;
      const size_t first = order.size();
      order.push_back(Rim(v));
      placed[order.back()] = true;
      for (size_t head = first; head < order.size(); ++head) {
        std::vector<NodeId> children;
        for (const NodeId u : graph_.Neighbours(order[head])) {
          if (part_of_[u] != part_ || placed[u]) continue;
          placed[u] = true;
          children.push_back(u);
        }
        std::sort(children.begin(), children.end(), [&](NodeId a, NodeId b) { return Key(a) < Key(b); });
        order.insert(order.end(), children.begin(), children.end());
      }
      std::reverse(order.begin() + static_cast<int64_t>(first), order.end());
    }
    return order;
  }

 private:
  std::pair<int64_t, NodeId> Key(NodeId v) const { return {graph_.Degree(v), v}; }

  // The last node that was searched from: as long as that makes the levels deeper, eight times at most.
  NodeId Rim(NodeId start) const {
    std::vector<std::vector<NodeId>> levels = LevelsFrom(start);
    NodeId root = start;
    for (int round = 0; round < 8 && levels.size() > 1; ++round) {
      root = *std::min_element(levels.back().begin(), levels.back().end(),
                               [&](NodeId a, NodeId b) { return Key(a) < Key(b); });
      std::vector<std::vector<NodeId>> next = LevelsFrom(root);
      if (next.size() <= levels.size()) break;
      levels = std::move(next);
    }
    return root;
  }

  std::vector<std::vector<NodeId>> LevelsFrom(NodeId root) const {
    std::vector<bool> met(graph_.num_nodes(), false);
    met[root] = true;
    std::vector<std::vector<NodeId>> levels;
    for (std::vector<NodeId> level = {root}; !level.empty();) {
      std::vector<NodeId> next;
      for (const NodeId v : level) {
        for (const NodeId u : graph_.Neighbours(v)) {
          if (part_of_[u] != part_ || met[u]) continue;
          met[u] = true;
          next.push_back(u);
        }
      }
      levels.push_back(std::exchange(level, std::move(next)));
    }
    return levels;
  }

  const UndirectedGraph& graph_;
  const std::vector<NodeId>& part_of_;
  const NodeId part_;
};

void ExpectPlainNumbering(const EdgeList& edges, const std::vector<int>& threads) {
  const Csr csr = BuildCsrByTarget(edges);
  const UndirectedGraph graph(csr);
  const std::vector<NodeId> expected = PlainNumbering(graph, std::vector<NodeId>(graph.num_nodes(), 0), 0).Run();
  EXPECT_EQ(NumberWhole(graph, nullptr), expected);
  for (const int count : threads) {
    SCOPED_TRACE(count);
    ThreadPool pool(count);
    EXPECT_EQ(NumberWhole(graph, &pool), expected);
  }
}

TEST(NumberWhole, IsThePlainSearchOnSmallGraphs) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    ExpectPlainNumbering(RandomEdges(seed, false), {2});
  }
}

// All of these have levels that several threads search.
TEST(NumberWhole, IsThePlainSearchForAnyNumberOfThreads) {
  const std::vector<int> threads = {1, 2, 7, 16};
  ExpectPlainNumbering(RmatGraph(13, 200'000, 3), threads);         // hubs, loops, duplicates, nodes without edges
  ExpectPlainNumbering(PlantedGraph(10, 300, 80, 5, 4), threads);   // dense: the last levels are found upwards
  ExpectPlainNumbering(PlantedGraph(3, 9'000, 12, 0, 5), threads);  // three large components
}

// Many levels, none of which is large.
TEST(NumberWhole, IsThePlainSearchOnAGrid) { ExpectPlainNumbering(ShuffleIds(GridGraph(120), 6), {2}); }

TEST(NumberInsideParts, IsThePlainSearchOfEachPartForAnyNumberOfThreads) {
  // Dense and sparse inside, and a part without nodes.
  for (const EdgeList& edges :
       {PlantedGraph(12, 200, 60, 20, 7), PlantedGraph(30, 80, 1, 2, 8), RmatGraph(11, 9'000, 9)}) {
    const Csr csr = BuildCsrByTarget(edges);
    const UndirectedGraph graph(csr);
    constexpr NodeId kParts = 9;
    std::vector<NodeId> part_of;
    for (NodeId v = 0; v < graph.num_nodes(); ++v) part_of.push_back(v / 200 % kParts == 4 ? 3 : v / 200 % kParts);
    std::vector<NodeId> expected;
    for (NodeId part = 0; part < kParts; ++part) {
      const std::vector<NodeId> inside = PlainNumbering(graph, part_of, part).Run();
      expected.insert(expected.end(), inside.begin(), inside.end());
    }
    const Parts parts = PartsFrom(part_of, kParts);
    EXPECT_EQ(NumberInsideParts(graph, parts, nullptr), expected);
    for (const int threads : {1, 2, 7, 16}) {
      ThreadPool pool(threads);
      EXPECT_EQ(NumberInsideParts(graph, parts, &pool), expected);
    }
  }
}

}  // namespace
}  // namespace vicinal::internal

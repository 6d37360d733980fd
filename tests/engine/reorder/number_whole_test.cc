// SPDX-License-Identifier: Apache-2.0
// Numbering whole graphs level by level, from either side and with several threads, against the plain search: that of
// one part with all nodes, which one thread numbers node by node.
#include <gtest/gtest.h>

#include <vector>

#include "engine/reorder/cuthill_mckee.h"
#include "tests/engine/graph/graph_testing.h"
#include "tests/engine/reorder/reorder_testing.h"
#include "tests/support/generators.h"

namespace vicinal::internal {
namespace {

using testing::PlantedGraph;
using testing::RandomEdges;

std::vector<NodeId> PlainNumbering(const UndirectedGraph& graph) {
  const Parts whole = PartsFrom(std::vector<NodeId>(graph.num_nodes(), 0), 1);
  return NumberInsideParts(graph, whole, nullptr);
}

void ExpectPlainNumbering(const EdgeList& edges, const std::vector<int>& threads) {
  const Csr csr = BuildCsrByTarget(edges);
  const UndirectedGraph graph(csr);
  const std::vector<NodeId> expected = PlainNumbering(graph);
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
  ExpectPlainNumbering(RmatGraph(14, 300'000, 3), threads);         // hubs, loops, duplicates, nodes without edges
  ExpectPlainNumbering(PlantedGraph(10, 300, 80, 5, 4), threads);   // dense: the last levels are found upwards
  ExpectPlainNumbering(PlantedGraph(3, 9'000, 12, 0, 5), threads);  // three large components
}

// Many levels, none of which is large.
TEST(NumberWhole, IsThePlainSearchOnAGrid) { ExpectPlainNumbering(ShuffleIds(GridGraph(120), 6), {2}); }

}  // namespace
}  // namespace vicinal::internal

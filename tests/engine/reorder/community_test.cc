// SPDX-License-Identifier: Apache-2.0
// Communities: modularity against its definition summed over all pairs of nodes, planted communities found again, the
// same for any number of threads; and the order that is made of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/reorder/order.h"
#include "tests/engine/graph/graph_testing.h"
#include "tests/engine/reorder/reorder_testing.h"
#include "tests/support/generators.h"

namespace vicinal {
namespace {

using testing::ExpectPermutation;
using testing::ExpectReversedBreadthFirst;
using testing::MakeEdges;
using testing::NeighbourLists;
using testing::PlantedGraph;
using testing::RandomEdges;

// Newman and Girvan's definition, with A = M + M^T for the matrix M of edge counts (which counts a loop twice).
double ModularityByPairs(const EdgeList& edges, const std::vector<NodeId>& community) {
  const int64_t n = edges.num_nodes;
  if (edges.num_edges() == 0) return 0.0;
  std::vector<double> a(n * n, 0.0), degree(n, 0.0);
  for (int64_t e = 0; e < edges.num_edges(); ++e) {
    a[edges.source[e] * n + edges.target[e]] += 1.0;
    a[edges.target[e] * n + edges.source[e]] += 1.0;
    degree[edges.source[e]] += 1.0;
    degree[edges.target[e]] += 1.0;
  }
  const double total = 2.0 * static_cast<double>(edges.num_edges());
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      if (community[i] == community[j]) sum += a[i * n + j] - degree[i] * degree[j] / total;
    }
  }
  return sum / total;
}

void ExpectCommunities(const EdgeList& edges, const Communities& communities) {
  ASSERT_EQ(communities.of_node.size(), edges.num_nodes);
  ASSERT_EQ(communities.sizes.size(), communities.count);
  std::vector<NodeId> sizes(communities.count, 0);
  for (const NodeId c : communities.of_node) {
    ASSERT_TRUE(c >= 0 && c < communities.count);
    ++sizes[c];
  }
  EXPECT_EQ(communities.sizes, sizes);
  EXPECT_EQ(std::count(sizes.begin(), sizes.end(), 0), 0);
  // Communities never join what no edge joins.
  std::vector<bool> touched(edges.num_nodes, false);
  for (int64_t e = 0; e < edges.num_edges(); ++e) {
    if (edges.source[e] != edges.target[e]) touched[edges.source[e]] = touched[edges.target[e]] = true;
  }
  for (int64_t v = 0; v < edges.num_nodes; ++v) {
    EXPECT_TRUE(touched[v] || sizes[communities.of_node[v]] == 1);
  }
}

TEST(Communities, ModularityIsThatOfTheDefinition) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const EdgeList edges = seed % 3 == 0 ? PlantedGraph(4, 10, 3, 1, seed) : RandomEdges(seed, false);
    const Communities communities = FindCommunities(BuildCsrByTarget(edges));
    ExpectCommunities(edges, communities);
    EXPECT_NEAR(communities.modularity, ModularityByPairs(edges, communities.of_node), 1e-12);
    // Never worse than every node for itself, which is where the search begins.
    std::vector<NodeId> alone(edges.num_nodes);
    for (NodeId v = 0; v < edges.num_nodes; ++v) alone[v] = v;
    EXPECT_GE(communities.modularity, ModularityByPairs(edges, alone) - 1e-12);
  }
}

TEST(Communities, OfAGraphAndItsReverseAndItsSymmetricFormAreTheSame) {
  const EdgeList edges = PlantedGraph(6, 30, 5, 1, 9);
  EdgeList reverse = edges, both = edges;
  std::swap(reverse.source, reverse.target);
  both.source.insert(both.source.end(), edges.target.begin(), edges.target.end());
  both.target.insert(both.target.end(), edges.source.begin(), edges.source.end());
  const Communities a = FindCommunities(BuildCsrByTarget(edges));
  EXPECT_EQ(a.of_node, FindCommunities(BuildCsrByTarget(reverse)).of_node);
  const Communities c = FindCommunities(BuildCsrByTarget(both));
  EXPECT_EQ(a.of_node, c.of_node);
  EXPECT_NEAR(a.modularity, c.modularity, 1e-12);
}

// Share of nodes whose found community is the commonest one of their planted block, and the other way round.
double Agreement(const std::vector<NodeId>& found, int64_t size) {
  std::map<std::pair<NodeId, NodeId>, int64_t> common;
  for (size_t v = 0; v < found.size(); ++v) ++common[{static_cast<NodeId>(v / size), found[v]}];
  std::map<NodeId, int64_t> of_block, of_found;
  for (const auto& [pair, count] : common) {
    of_block[pair.first] = std::max(of_block[pair.first], count);
    of_found[pair.second] = std::max(of_found[pair.second], count);
  }
  int64_t blocks = 0, founds = 0;
  for (const auto& [block, count] : of_block) blocks += count;
  for (const auto& [community, count] : of_found) founds += count;
  return static_cast<double>(std::min(blocks, founds)) / static_cast<double>(found.size());
}

void ExpectPlantedFound(int64_t blocks, int64_t size, int64_t inside, int64_t outside) {
  const EdgeList planted = PlantedGraph(blocks, size, inside, outside, 5);
  ThreadPool pool(2);
  const Communities found = FindCommunities(BuildCsrByTarget(planted), &pool);
  EXPECT_GE(Agreement(found.of_node, size), 0.99);
  // The planted blocks' own modularity: what stays inside, less what chance would leave there.
  int64_t stays = 0;
  for (int64_t e = 0; e < planted.num_edges(); ++e) stays += planted.source[e] / size == planted.target[e] / size;
  const double expected =
      static_cast<double>(stays) / static_cast<double>(planted.num_edges()) - 1.0 / static_cast<double>(blocks);
  EXPECT_NEAR(found.modularity, expected, 0.01);
}

TEST(Communities, PlantedOnesAreFoundOneNodeAfterTheOther) { ExpectPlantedFound(20, 60, 10, 3); }
// 2 x 10 x 30,000 entries: moved in batches.
TEST(Communities, PlantedOnesAreFoundInBatches) { ExpectPlantedFound(60, 500, 8, 2); }

TEST(Communities, ApartAreApart) {
  const EdgeList edges = PlantedGraph(5, 12, 30, 0, 2);  // so dense that no block falls into two
  const Communities communities = FindCommunities(BuildCsrByTarget(edges));
  EXPECT_EQ(communities.count, 5);
  EXPECT_NEAR(communities.modularity, 0.8, 1e-3);
}

TEST(Communities, OfNoEdges) {
  const Communities communities = FindCommunities(BuildCsrByTarget(MakeEdges(4, {})));
  EXPECT_EQ(communities.count, 4);
  EXPECT_EQ(communities.modularity, 0.0);
}

TEST(CommunityOrder, IsTheSameForAnyNumberOfThreads) {
  // Enough entries to be moved in batches, with hubs, loops and duplicates.
  // The last one's rows are so long that a thread takes a few at a time.
  for (const EdgeList& edges :
       {RmatGraph(14, 300000, 3), PlantedGraph(40, 700, 8, 2, 6), PlantedGraph(12, 250, 150, 30, 7)}) {
    const Csr csr = BuildCsrByTarget(edges);
    OrderComputer alone(csr);
    const std::vector<NodeId> expected = alone.Compute(OrderKind::kCommunity)->new_of_old();
    for (const int threads : {1, 2, 7, 16}) {
      ThreadPool pool(threads);
      OrderComputer computer(csr, &pool);
      EXPECT_EQ(computer.communities(), nullptr);
      EXPECT_EQ(computer.Compute(OrderKind::kCommunity)->new_of_old(), expected);
      ASSERT_NE(computer.communities(), nullptr);
      EXPECT_EQ(computer.communities()->of_node, alone.communities()->of_node);
      EXPECT_EQ(computer.communities()->modularity, alone.communities()->modularity);
    }
  }
}

// The communities in the order they lie in, each as the old ids of its consecutive nodes.
std::vector<std::vector<NodeId>> Runs(const Permutation& permutation, const Communities& communities) {
  std::vector<std::vector<NodeId>> runs;
  for (NodeId at = 0; at < permutation.size(); ++at) {
    const NodeId v = permutation.ToOld(at);
    if (at == 0 || communities.of_node[v] != communities.of_node[permutation.ToOld(at - 1)]) runs.emplace_back();
    runs.back().push_back(v);
  }
  return runs;
}

TEST(CommunityOrder, CommunitiesAreConsecutiveAndRcmInside) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const EdgeList edges =
        ShuffleIds(seed % 2 == 0 ? PlantedGraph(8, 40, 4, 1, seed) : RmatGraph(9, 1500, seed), seed + 100);
    const Csr csr = BuildCsrByTarget(edges);
    OrderComputer computer(csr);
    const Permutation permutation = computer.Compute(OrderKind::kCommunity).value();
    ExpectPermutation(permutation, edges.num_nodes);
    const auto runs = Runs(permutation, *computer.communities());
    EXPECT_EQ(runs.size(), computer.communities()->count);
    const auto neighbours = NeighbourLists(edges);
    for (const auto& run : runs) ExpectReversedBreadthFirst(run, neighbours);
  }
}

TEST(CommunityOrder, CutsWhatIsLargerThanABlock) {
  // Two halves without inner structure: of what they are merged from, parts are within a block, the communities not.
  const EdgeList edges = ShuffleIds(PlantedGraph(2, 15000, 3, 0, 3), 4);
  const Csr csr = BuildCsrByTarget(edges);
  OrderComputer computer(csr);
  const Permutation permutation = computer.Compute(OrderKind::kCommunity).value();
  ExpectPermutation(permutation, edges.num_nodes);
  EXPECT_GT(*std::max_element(computer.communities()->sizes.begin(), computer.communities()->sizes.end()), kBlockNodes);
  EXPECT_EQ(Runs(permutation, *computer.communities()).size(), computer.communities()->count);
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// Orders: permutations always, the same for any number of threads, and what each promises. RCM is held against the
// definition: levels of a breadth-first search from its last node, and a bandwidth that falls on shuffled grids and
// paths.
#include "engine/reorder/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "engine/base/error.h"
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

int64_t Bandwidth(const EdgeList& edges, const Permutation& permutation) {
  int64_t bandwidth = 0;
  for (int64_t e = 0; e < edges.num_edges(); ++e) {
    bandwidth =
        std::max<int64_t>(bandwidth, std::abs(permutation.ToNew(edges.source[e]) - permutation.ToNew(edges.target[e])));
  }
  return bandwidth;
}

Permutation Rcm(const EdgeList& edges) { return ComputeOrder(OrderKind::kRcm, BuildCsrByTarget(edges)).value(); }

TEST(OrderKind, NamesGoBothWays) {
  std::set<OrderKind> kinds;
  for (const OrderKind kind : KnownOrders()) {
    const auto parsed = ParseOrderKind(ToString(kind));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, kind);
    kinds.insert(kind);
  }
  EXPECT_EQ(kinds.size(), 6u);
  const Status refused = ParseOrderKind("hilbert").status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("'hilbert'; known: auto, none, degree, rcm, community, metis"),
            absl::string_view::npos)
      << refused;
}

TEST(Permutation, KnowsTheIdentity) {
  EXPECT_TRUE(Permutation::Identity(5).is_identity());
  EXPECT_TRUE(Permutation::FromNewOfOld({0, 1, 2}).is_identity());
  EXPECT_FALSE(Permutation::FromNewOfOld({0, 2, 1}).is_identity());
  EXPECT_EQ(Permutation::FromNewOfOld({2, 0, 1}).old_of_new(), (std::vector<NodeId>{1, 2, 0}));
  EXPECT_EQ(Permutation::FromOldOfNew({2, 0, 1}).new_of_old(), (std::vector<NodeId>{1, 2, 0}));
  EXPECT_FALSE(Permutation::FromOldOfNew({1, 0}).is_identity());
  ExpectPermutation(Permutation::Identity(7), 7);
}

// Every kind on `edges`, alone and with threads.
void ExpectOrders(const EdgeList& edges, ThreadPool* pool) {
  const Csr csr = BuildCsrByTarget(edges);
  OrderComputer together(csr, pool);
  for (const OrderKind kind : KnownOrders()) {
    if (kind == OrderKind::kAuto || !IsAvailable(kind)) continue;
    SCOPED_TRACE(std::string(ToString(kind)));
    const auto permutation = ComputeOrder(kind, csr);
    ASSERT_TRUE(permutation.ok()) << permutation.status();
    ExpectPermutation(*permutation, csr.num_rows);
    EXPECT_EQ(permutation->new_of_old(), together.Compute(kind)->new_of_old());
  }
  EXPECT_TRUE(ComputeOrder(OrderKind::kNone, csr)->is_identity());
}

TEST(Orders, ArePermutationsOfSmallGraphs) {
  ThreadPool pool(2);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    ExpectOrders(RandomEdges(seed, false), &pool);
  }
}

TEST(Orders, ArePermutationsOfAZoo) {
  ThreadPool pool(3);
  ExpectOrders(MakeEdges(1, {}), &pool);
  ExpectOrders(MakeEdges(1, {{0, 0}, {0, 0}}), &pool);
  ExpectOrders(MakeEdges(9000, {}), &pool);  // nothing but isolated nodes, of several blocks
  ExpectOrders(MakeEdges(9000, {{0, 8999}, {5, 5}}), &pool);
  ExpectOrders(ShuffleIds(GridGraph(90), 1), &pool);
  ExpectOrders(RmatGraph(13, 60000, 2), &pool);  // hubs, duplicates, loops, isolated nodes
  ExpectOrders(UniformGraph(10000, 60000, 3), &pool);
  ExpectOrders(PlantedGraph(3, 5000, 4, 0, 4), &pool);  // apart, each larger than a block
}

TEST(DegreeOrder, FallsAndKeepsTies) {
  const Csr csr = BuildCsrByTarget(RmatGraph(8, 3000, 5));
  const Permutation permutation = ComputeOrder(OrderKind::kDegree, csr).value();
  const auto degree = [&](NodeId rank) {
    const NodeId v = permutation.ToOld(rank);
    return csr.row_ptr[v + 1] - csr.row_ptr[v];
  };
  for (NodeId rank = 1; rank < csr.num_rows; ++rank) {
    EXPECT_GE(degree(rank - 1), degree(rank));
    if (degree(rank - 1) == degree(rank)) {
      EXPECT_LT(permutation.ToOld(rank - 1), permutation.ToOld(rank));
    }
  }
}

TEST(RcmOrder, BringsAShuffledGridTogether) {
  const int64_t side = 40;
  const EdgeList grid = ShuffleIds(GridGraph(side), 3);
  EXPECT_GT(Bandwidth(grid, Permutation::Identity(side * side)), side * side / 2);
  // From a corner the levels are the diagonals: at most `side` nodes each, so neighbours lie less than two of them
  // apart.
  EXPECT_LE(Bandwidth(grid, Rcm(grid)), 2 * side);
}

TEST(RcmOrder, StraightensAPathOfEitherDirection) {
  EdgeList path;
  path.num_nodes = 500;
  for (NodeId v = 0; v + 1 < 500; ++v) {
    path.source.push_back(v % 3 == 0 ? v : v + 1);
    path.target.push_back(v % 3 == 0 ? v + 1 : v);
  }
  const EdgeList shuffled = ShuffleIds(path, 8);
  EXPECT_EQ(Bandwidth(shuffled, Rcm(shuffled)), 1);
}

TEST(RcmOrder, IsAReversedBreadthFirstSearch) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const EdgeList edges = seed % 2 == 0 ? RandomEdges(seed, false) : UniformGraph(60, 90, seed);
    ExpectReversedBreadthFirst(Rcm(edges).old_of_new(), NeighbourLists(edges));
  }
}

TEST(RcmOrder, KeepsComponentsApart) {
  // Two triangles and two isolated nodes, interleaved.
  const EdgeList edges = MakeEdges(8, {{0, 2}, {2, 4}, {4, 0}, {1, 3}, {3, 5}, {5, 1}});
  const Permutation permutation = Rcm(edges);
  EXPECT_EQ(Bandwidth(edges, permutation), 2);
  // Components in the order of their lowest id.
  for (const NodeId v : {0, 2, 4}) EXPECT_LT(permutation.ToNew(v), 3);
  for (const NodeId v : {1, 3, 5}) EXPECT_LT(permutation.ToNew(v), 6);
  EXPECT_EQ(permutation.ToNew(6), 6);
  EXPECT_EQ(permutation.ToNew(7), 7);
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
#include "tests/support/generators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace vicinal {
namespace {

std::vector<int64_t> InDegrees(const EdgeList& edges) {
  std::vector<int64_t> degrees(edges.num_nodes, 0);
  for (const NodeId target : edges.target) ++degrees[target];
  return degrees;
}

void ExpectInRange(const EdgeList& edges) {
  ASSERT_EQ(edges.source.size(), edges.target.size());
  for (const auto* ids : {&edges.source, &edges.target}) {
    for (const NodeId id : *ids) ASSERT_TRUE(id >= 0 && id < edges.num_nodes);
  }
}

TEST(Generators, SameSeedSameGraph) {
  EXPECT_EQ(UniformGraph(100, 1000, 1).source, UniformGraph(100, 1000, 1).source);
  EXPECT_NE(UniformGraph(100, 1000, 1).source, UniformGraph(100, 1000, 2).source);
  EXPECT_EQ(RmatGraph(8, 1000, 1).target, RmatGraph(8, 1000, 1).target);
  EXPECT_NE(RmatGraph(8, 1000, 1).target, RmatGraph(8, 1000, 2).target);
  // The numbers themselves: the same on every machine.
  // SplitMix64 of seed 7, computed elsewhere.
  EXPECT_EQ(UniformGraph(1000, 3, 7).source, (std::vector<NodeId>{389, 900, 452}));
  EXPECT_EQ(UniformGraph(1000, 3, 7).target, (std::vector<NodeId>{16, 582, 249}));
}

TEST(Generators, UniformIsEven) {
  const EdgeList edges = UniformGraph(100, 100000, 3);
  ExpectInRange(edges);
  EXPECT_EQ(edges.num_edges(), 100000);
  const std::vector<int64_t> degrees = InDegrees(edges);
  // Mean 1000, deviation 31: seven deviations.
  EXPECT_GT(*std::min_element(degrees.begin(), degrees.end()), 780);
  EXPECT_LT(*std::max_element(degrees.begin(), degrees.end()), 1220);
}

TEST(Generators, RmatIsSkewed) {
  const EdgeList edges = RmatGraph(10, 20000, 3);
  ExpectInRange(edges);
  EXPECT_EQ(edges.num_nodes, 1024);
  const std::vector<int64_t> degrees = InDegrees(edges);
  EXPECT_GT(*std::max_element(degrees.begin(), degrees.end()), 10 * 20000 / 1024);
  // A quarter of the bits of either end is set: a + b = 0.76 of the sources lie in the lower half, likewise the
  // targets.
  const auto lower = [&](const std::vector<NodeId>& ids) {
    return static_cast<double>(std::count_if(ids.begin(), ids.end(), [](NodeId v) { return v < 512; })) / 20000.0;
  };
  EXPECT_NEAR(lower(edges.source), 0.76, 0.02);
  EXPECT_NEAR(lower(edges.target), 0.76, 0.02);
}

TEST(Generators, GridJoinsNeighbours) {
  const EdgeList edges = GridGraph(4);
  ExpectInRange(edges);
  EXPECT_EQ(edges.num_nodes, 16);
  EXPECT_EQ(edges.num_edges(), 48);
  std::set<std::pair<NodeId, NodeId>> pairs;
  for (int64_t e = 0; e < edges.num_edges(); ++e) pairs.emplace(edges.source[e], edges.target[e]);
  EXPECT_EQ(pairs.size(), 48);
  for (const auto& [source, target] : pairs) {
    EXPECT_EQ(std::abs(source / 4 - target / 4) + std::abs(source % 4 - target % 4), 1);
    EXPECT_TRUE(pairs.count({target, source}));
  }
}

TEST(Generators, ShuffleRenames) {
  const EdgeList grid = GridGraph(8);
  const EdgeList shuffled = ShuffleIds(grid, 9);
  std::vector<NodeId> name(64, -1);
  for (int64_t e = 0; e < grid.num_edges(); ++e) {
    NodeId& seen = name[grid.source[e]];
    if (seen < 0) seen = shuffled.source[e];
    EXPECT_EQ(seen, shuffled.source[e]);
  }
  for (int64_t e = 0; e < grid.num_edges(); ++e) EXPECT_EQ(name[grid.target[e]], shuffled.target[e]);
  EXPECT_EQ(std::set<NodeId>(name.begin(), name.end()).size(), 64);
  EXPECT_NE(shuffled.source, grid.source);
}

}  // namespace
}  // namespace vicinal

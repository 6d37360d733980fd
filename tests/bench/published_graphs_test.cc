// SPDX-License-Identifier: Apache-2.0
// The synthetic graphs are those that others measured on, bit for bit; the files of graphs hold what was written.
#include "bench/published_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include "bench/node_pairs.h"
#include "bench/renumbered.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

uint64_t ChecksumOf(std::string_view name, int threads) {
  ThreadPool pool(threads);
  const StatusOr<BinaryGraph> graph = MakePublishedGraph(name, pool);
  return graph.ok() ? Checksum(*graph) : 0;
}

TEST(PublishedGraphsTest, AreBitForBitTheListedOnes) {
  EXPECT_EQ(ChecksumOf("cora", 2), 0x0d7893d3013080f2);
  EXPECT_EQ(ChecksumOf("citeseer", 2), 0xa40094b0d32f3343);
  EXPECT_EQ(ChecksumOf("pubmed", 2), 0xe05497a0abf887f4);
  EXPECT_EQ(ChecksumOf("artist", 2), 0x2a5cbe39ebf75200);
}

TEST(PublishedGraphsTest, NearCompleteGraphLacksThePublishedNumberOfPairs) {
  ThreadPool pool(2);
  const StatusOr<BinaryGraph> graph = MakePublishedGraph("mann-a81", pool);
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->nodes, 3321);
  EXPECT_EQ(graph->edges(), 2 * 5'506'380) << "MANN_a81's edges, both ways";
  EXPECT_EQ(graph->row_ptr[1], 3320 - 40) << "a point is in 40 triples";
  EXPECT_EQ(graph->row_ptr[3321] - graph->row_ptr[3320], 3320 - 3) << "two of its triple, and a point";
}

TEST(PublishedGraphsTest, DoNotDependOnTheNumberOfThreads) {
  EXPECT_EQ(ChecksumOf("pubmed", 1), ChecksumOf("pubmed", 5));
}

TEST(PublishedGraphsTest, OfAChosenNumberOfEdges) {
  ThreadPool pool(2);
  const auto graph = MakePublishedGraph("pubmed", pool, 40'000);
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->nodes, 19717);
  EXPECT_NEAR(static_cast<double>(graph->edges()), 40'000, 500);
  const auto refused = MakePublishedGraph("rmat5", pool, 40'000);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("rmat5"));
}

TEST(PublishedGraphsTest, UnknownNamesAreRefusedWithTheKnownOnes) {
  ThreadPool pool(1);
  const auto graph = MakePublishedGraph("karate", pool);
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("molecules"));
}

TEST(NodePairsTest, EachEdgeOnceAndAscending) {
  ThreadPool pool(2);
  const std::vector<NodePair> pairs = {{2, 1}, {2, 0}, {2, 1}, {1, 1}, {0, 2}};
  const BinaryGraph drawn = GraphOfPairs(3, pairs, Direction::kAsDrawn, pool);
  EXPECT_THAT(drawn.row_ptr, ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(drawn.col, ElementsAre(2, 1, 0, 1));
  const BinaryGraph both = GraphOfPairs(3, pairs, Direction::kBothWays, pool);
  EXPECT_THAT(both.row_ptr, ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(both.col, ElementsAre(2, 2, 0, 1));
}

TEST(BinaryGraphTest, ReadsWhatWasWrittenAndRefusesTheRest) {
  const TemporaryDirectory folder;
  const std::string path = folder / "graph.bin";
  const BinaryGraph graph = {3, {0, 1, 1, 3}, {2, 0, 1}};
  ASSERT_TRUE(WriteBinaryGraph(graph, path).ok());
  const StatusOr<BinaryGraph> read = ReadBinaryGraph(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Checksum(*read), Checksum(graph));
  EXPECT_EQ(read->nodes, 3);
  std::ofstream(path, std::ios::binary) << "short";
  EXPECT_EQ(ReadBinaryGraph(path).status().code(), StatusCode::kInvalidArgument);
  std::remove(path.c_str());
  EXPECT_EQ(ReadBinaryGraph(path).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteBinaryGraph(graph, "/no/such/folder/graph.bin").code(), StatusCode::kInvalidArgument);
}

TEST(RenumberedTest, KeepsTheGraphAndItsDegrees) {
  ThreadPool pool(2);
  const BinaryGraph graph = *MakePublishedGraph("cora", pool);
  EXPECT_EQ(Checksum(Renumbered(graph, "none", pool)->graph), Checksum(graph));
  const auto degrees = [](const BinaryGraph& g) {
    std::vector<int32_t> all;
    for (int64_t row = 0; row < g.nodes; ++row) all.push_back(g.row_ptr[row + 1] - g.row_ptr[row]);
    std::sort(all.begin(), all.end());
    return all;
  };
  for (const char* order : {"rcm", "community", "degree"}) {
    const StatusOr<RenumberedGraph> renumbered = Renumbered(graph, order, pool);
    ASSERT_TRUE(renumbered.ok()) << renumbered.status();
    EXPECT_EQ(degrees(renumbered->graph), degrees(graph)) << order;
    EXPECT_NE(Checksum(renumbered->graph), Checksum(graph)) << order;
    if (std::string(order) != "community") {
      EXPECT_TRUE(renumbered->blocks.empty()) << order;
      continue;
    }
    EXPECT_EQ(renumbered->blocks.front(), 0);
    EXPECT_EQ(renumbered->blocks.back(), graph.nodes);
    EXPECT_GT(renumbered->blocks.size(), 2u);
    EXPECT_LT(renumbered->blocks.size(), graph.nodes / 2);
  }
  EXPECT_FALSE(Renumbered(graph, "auto", pool).ok());
  EXPECT_FALSE(Renumbered(graph, "backwards", pool).ok());
}

}  // namespace
}  // namespace vicinal::bench

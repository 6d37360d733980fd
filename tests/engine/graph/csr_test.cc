// SPDX-License-Identifier: Apache-2.0
// CSR against a comparison sort of the edges with their index.
#include "engine/graph/csr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "engine/graph/bucketed_csr.h"
#include "engine/graph/parallel_csr.h"
#include "tests/engine/graph/graph_testing.h"
#include "tests/support/generators.h"

namespace vicinal {
namespace {

using testing::MakeEdges;
using testing::RandomEdges;

// (target, source, index in the order sent) of each edge, with node v called name[v].
using SortedEdges = std::vector<std::tuple<NodeId, NodeId, int64_t>>;

SortedEdges SortByTarget(const EdgeList& edges, const std::vector<NodeId>& name) {
  SortedEdges sorted;
  for (int64_t e = 0; e < edges.num_edges(); ++e) sorted.emplace_back(name[edges.target[e]], name[edges.source[e]], e);
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// `sent` is the edge of each entry.
void ExpectTraces(const std::vector<EdgeId>& sent, const SortedEdges& sorted) {
  ASSERT_EQ(sent.size(), sorted.size());
  for (size_t k = 0; k < sent.size(); ++k) EXPECT_EQ(sent[k], std::get<2>(sorted[k]));
}

void ExpectHolds(const Csr& csr, const EdgeList& edges, const SortedEdges& sorted) {
  ASSERT_EQ(csr.num_rows, edges.num_nodes);
  ASSERT_EQ(csr.num_cols, edges.num_nodes);
  ASSERT_EQ(csr.row_ptr.size(), edges.num_nodes + 1);
  ASSERT_EQ(csr.nnz(), edges.num_edges());
  ASSERT_EQ(csr.row_ptr.front(), 0);
  ASSERT_EQ(csr.row_ptr.back(), edges.num_edges());
  ASSERT_EQ(csr.value.empty(), !edges.weighted());
  int64_t at = 0;
  for (int64_t row = 0; row < csr.num_rows; ++row) {
    for (; at < csr.row_ptr[row + 1]; ++at) {
      const auto& [target, source, index] = sorted[at];
      EXPECT_EQ(row, target);
      EXPECT_EQ(csr.col[at], source);
      if (edges.weighted()) {
        EXPECT_EQ(csr.value[at], edges.weight[index]);
      }
    }
  }
}

std::vector<NodeId> Identity(int64_t size) {
  std::vector<NodeId> ids(size);
  for (int64_t i = 0; i < size; ++i) ids[i] = static_cast<NodeId>(i);
  return ids;
}

TEST(Csr, HoldsTheEdgesSortedStably) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const EdgeList edges = RandomEdges(seed, seed % 2 == 0);
    const SortedEdges sorted = SortByTarget(edges, Identity(edges.num_nodes));
    ExpectHolds(BuildCsrByTarget(edges), edges, sorted);
    std::vector<EdgeId> sent;
    ExpectHolds(BuildCsrByTarget(edges, &sent), edges, sorted);
    ExpectTraces(sent, sorted);
  }
}

TEST(Csr, RenumbersRowsAndColumnsStably) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const EdgeList edges = RandomEdges(seed, seed % 2 == 0);
    const std::vector<NodeId> name = testing::RandomPermutation(edges.num_nodes, seed);
    const SortedEdges sorted = SortByTarget(edges, name);
    ExpectHolds(RenumberCsr(BuildCsrByTarget(edges), name), edges, sorted);
    std::vector<EdgeId> sent;
    const Csr as_sent = BuildCsrByTarget(edges, &sent);
    ExpectHolds(RenumberCsr(as_sent, name, &sent), edges, sorted);
    ExpectTraces(sent, sorted);
  }
}

TEST(Csr, IsTheSameMadeByThreads) {
  ThreadPool pool(8);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const EdgeList edges = RandomEdges(seed, seed % 2 == 0);
    const std::vector<NodeId> name = testing::RandomPermutation(edges.num_nodes, seed);
    const Csr csr = BuildCsrByTarget(edges, &pool);
    const SortedEdges as_sent = SortByTarget(edges, Identity(edges.num_nodes)), renamed = SortByTarget(edges, name);
    ExpectHolds(csr, edges, as_sent);
    ExpectHolds(RenumberCsr(csr, name, &pool), edges, renamed);
    std::vector<EdgeId> sent;
    const Csr traced = BuildCsrByTarget(edges, &pool, &sent);
    ExpectHolds(traced, edges, as_sent);
    ExpectTraces(sent, as_sent);
    ExpectHolds(RenumberCsr(traced, name, &pool, &sent), edges, renamed);
    ExpectTraces(sent, renamed);
  }
}

void ExpectEqual(const Csr& got, const Csr& expected) {
  EXPECT_EQ(got.num_rows, expected.num_rows);
  EXPECT_EQ(got.num_cols, expected.num_cols);
  EXPECT_EQ(got.row_ptr, expected.row_ptr);
  EXPECT_EQ(got.col, expected.col);
  EXPECT_EQ(got.value, expected.value);
}

// `edges` built and renamed by the pool's threads, traced and not, are what one thread makes of them.
void ExpectSameByThreads(const EdgeList& edges, const std::vector<NodeId>& name, ThreadPool& pool) {
  std::vector<EdgeId> expected_sent, sent;
  const Csr expected = BuildCsrByTarget(edges, &expected_sent);
  ExpectEqual(BuildCsrByTarget(edges, &pool), expected);
  ExpectEqual(BuildCsrByTarget(edges, &pool, &sent), expected);
  EXPECT_EQ(sent, expected_sent);
  const Csr renamed = RenumberCsr(expected, name, &expected_sent);
  ExpectEqual(RenumberCsr(expected, name, &pool), renamed);
  ExpectEqual(RenumberCsr(expected, name, &pool, &sent), renamed);
  EXPECT_EQ(sent, expected_sent);
}

// More edges than one task takes, and rows of very different lengths.
TEST(Csr, LargeOnesAreTheSameMadeByThreads) {
  ThreadPool pool(8);
  for (const bool weighted : {false, true}) {
    EdgeList edges = RmatGraph(12, 300'000, 1);
    for (int64_t e = 0; weighted && e < edges.num_edges(); ++e) edges.weight.push_back(static_cast<float>(e));
    ExpectSameByThreads(edges, testing::RandomPermutation(edges.num_nodes, 2), pool);
  }
}

// Rows so long that each thread has cursors of its own.
TEST(Csr, KnowsSymmetryOfLongRowsForAnyNumberOfThreads) {
  EdgeList edges = UniformGraph(60, 20'000, 4);
  const std::vector<NodeId> source = edges.source, target = edges.target;
  edges.source.insert(edges.source.end(), target.begin(), target.end());
  edges.target.insert(edges.target.end(), source.begin(), source.end());
  EdgeList turned = edges;  // the same but for one edge
  const auto edge = std::mismatch(source.begin(), source.end(), target.begin()).first - source.begin();
  std::swap(turned.source[edge], turned.target[edge]);
  for (const int threads : {1, 2, 7, 16}) {
    ThreadPool pool(threads);
    EXPECT_TRUE(IsPatternSymmetric(BuildCsrByTarget(edges), &pool));
    EXPECT_FALSE(IsPatternSymmetric(BuildCsrByTarget(turned), &pool));
  }
}

// Rows of up to 38,000 entries, shorter and longer than those that are sorted by digits, with duplicates.
TEST(Csr, LongRowsAreTheSameForAnyNumberOfThreads) {
  EdgeList edges;
  edges.num_nodes = 300'000;
  for (NodeId row = 0; row < 240; ++row) {
    for (int64_t e = 0; e < row * row * 2 / 3; ++e) {
      edges.source.push_back(static_cast<NodeId>((e * 7919 + row) % (row % 2 == 0 ? 500 : edges.num_nodes)));
      edges.target.push_back(row);
    }
  }
  for (const bool weighted : {false, true}) {
    for (int64_t e = 0; weighted && e < edges.num_edges(); ++e) edges.weight.push_back(static_cast<float>(e));
    for (const int threads : {2, 7, 16}) {
      ThreadPool pool(threads);
      ExpectSameByThreads(edges, testing::RandomPermutation(edges.num_nodes, 5), pool);
    }
  }
}

TEST(Csr, InBucketsIsTheSameForAnyNumberOfThreads) {
  // Fewer nodes than buckets, about as many, several rows in a bucket, and ids of three digits.
  for (const int64_t nodes : {700, 2'048, 10'007, 600'000}) {
    for (const bool weighted : {false, true}) {
      EdgeList edges = UniformGraph(nodes, 1'100'000, 3);
      // A row that is longer than the others, and duplicates with weights of their own.
      for (int64_t e = 0; e < 1'000; ++e) edges.target[1'000 * e] = edges.source[1'000 * e + 1] = 5;
      for (int64_t e = 0; weighted && e < edges.num_edges(); ++e) edges.weight.push_back(static_cast<float>(e));
      std::vector<EdgeId> expected_sent;
      const Csr expected = BuildCsrByTarget(edges, &expected_sent);
      for (const int threads : {1, 2, 7, 16}) {
        SCOPED_TRACE(::testing::Message() << nodes << " nodes, " << weighted << ", " << threads << " threads");
        ThreadPool pool(threads);
        std::vector<EdgeId> sent;
        const std::optional<Csr> csr = internal::BuildCsrInBuckets(edges, pool);
        const std::optional<Csr> traced = internal::BuildCsrInBuckets(edges, pool, &sent);
        ASSERT_TRUE(csr.has_value() && traced.has_value());
        ExpectEqual(*csr, expected);
        ExpectEqual(*traced, expected);
        EXPECT_EQ(sent, expected_sent);
      }
    }
  }
}

TEST(Csr, InBucketsIsNotForSmallOnesAndStars) {
  ThreadPool pool(8);
  EXPECT_FALSE(internal::BuildCsrInBuckets(MakeEdges(3, {}), pool).has_value());
  EXPECT_FALSE(internal::BuildCsrInBuckets(UniformGraph(10'000, 20'000, 1), pool).has_value());
  EdgeList star = UniformGraph(10'000, 1'000'000, 1);
  for (int64_t e = 0; e < star.num_edges(); e += 2) star.target[e] = 7;
  std::vector<EdgeId> sent = {7};
  EXPECT_FALSE(internal::BuildCsrInBuckets(star, pool).has_value());
  EXPECT_FALSE(internal::BuildCsrInBuckets(star, pool, &sent).has_value());
  EXPECT_EQ(sent, std::vector<EdgeId>{7});
  for (const bool weighted : {false, true}) {
    for (int64_t e = 0; weighted && e < star.num_edges(); ++e) star.weight.push_back(static_cast<float>(e));
    ExpectSameByThreads(star, testing::RandomPermutation(star.num_nodes, 3), pool);
  }
}

TEST(Csr, TransposesThePattern) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    EdgeList edges = RandomEdges(seed, false);
    const Csr transposed = TransposePattern(BuildCsrByTarget(edges));
    std::swap(edges.source, edges.target);
    ExpectHolds(transposed, edges, SortByTarget(edges, Identity(edges.num_nodes)));
  }
}

TEST(Csr, KnowsSymmetryOfPatterns) {
  EXPECT_TRUE(IsPatternSymmetric(BuildCsrByTarget(MakeEdges(3, {}))));
  EXPECT_TRUE(IsPatternSymmetric(BuildCsrByTarget(MakeEdges(3, {{0, 1}, {1, 0}, {2, 2}}))));
  EXPECT_FALSE(IsPatternSymmetric(BuildCsrByTarget(MakeEdges(3, {{0, 1}, {1, 2}, {2, 0}}))));
  EXPECT_FALSE(IsPatternSymmetric(BuildCsrByTarget(MakeEdges(2, {{0, 1}, {0, 1}, {1, 0}}))));
  ThreadPool pool(8);
  EXPECT_TRUE(IsPatternSymmetric(BuildCsrByTarget(MakeEdges(3, {{0, 1}, {1, 0}, {0, 1}, {1, 0}, {2, 2}})), &pool));
  EXPECT_FALSE(IsPatternSymmetric(BuildCsrByTarget(MakeEdges(2, {{0, 1}, {0, 1}, {1, 0}})), &pool));
  EXPECT_FALSE(IsPatternSymmetric(BuildCsrByTarget(MakeEdges(3, {{0, 1}, {1, 0}, {2, 1}})), &pool));
  int symmetric = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const EdgeList edges = RandomEdges(seed, false);
    SortedEdges forward = SortByTarget(edges, Identity(edges.num_nodes)), backward;
    for (auto& [target, source, index] : forward) {
      backward.emplace_back(source, target, 0);
      index = 0;
    }
    std::sort(backward.begin(), backward.end());
    EXPECT_EQ(IsPatternSymmetric(BuildCsrByTarget(edges)), forward == backward) << seed;
    EXPECT_EQ(IsPatternSymmetric(BuildCsrByTarget(edges), &pool), forward == backward) << seed;
    symmetric += forward == backward;
  }
  EXPECT_GT(symmetric, 10);
  EXPECT_LT(symmetric, 390);
}

}  // namespace
}  // namespace vicinal

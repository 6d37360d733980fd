// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/sample_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/graph/csr.h"
#include "tests/support/generators.h"

namespace vicinal {
namespace {

std::vector<int32_t> Row(const CsrView& csr, int64_t row) {
  return {csr.col + csr.row_ptr[row], csr.col + csr.row_ptr[row + 1]};
}

class SampleRowsTest : public ::testing::TestWithParam<double> {};

TEST_P(SampleRowsTest, TakesWholeRowsInOrderAndAboutTheShare) {
  const double share = GetParam();
  const auto device = MakeCpuDevice(1);
  Csr csr = BuildCsrByTarget(RmatGraph(12, 60'000, 7));
  csr.value.resize(csr.col.size());
  for (size_t e = 0; e < csr.value.size(); ++e) csr.value[e] = static_cast<float>(e);
  const auto sampled = SampleRows(csr.view(), share, *device);
  ASSERT_TRUE(sampled.ok()) << sampled.status();
  const CsrView& view = sampled->view;
  EXPECT_EQ(view.cols, csr.num_cols);
  EXPECT_EQ(view.row_ptr[0], 0);
  EXPECT_EQ(view.row_ptr[view.rows], view.nnz);
  // Blocks end at rows: off by at most a hub for each.
  EXPECT_NEAR(static_cast<double>(view.nnz), share * 60'000, 16 * 700.0);
  // Each row taken is a row of the graph, later than the one before: its values say which edges it holds.
  int64_t last = -1;
  for (int64_t row = 0; row < view.rows; ++row) {
    for (int64_t e = view.row_ptr[row]; e < view.row_ptr[row + 1]; ++e) {
      const int64_t edge = static_cast<int64_t>(view.value[e]);
      EXPECT_GT(edge, last);
      EXPECT_EQ(view.col[e], csr.col[edge]);
      last = edge;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shares, SampleRowsTest, ::testing::Values(0.01, 0.1, 0.5, 1.0));

TEST(SampleRowsTest, TheWholeIsTheWhole) {
  const auto device = MakeCpuDevice(1);
  const Csr csr = BuildCsrByTarget(UniformGraph(50, 400, 3));
  const auto sampled = SampleRows(csr.view(), 1.0, *device);
  ASSERT_TRUE(sampled.ok());
  EXPECT_EQ(sampled->view.nnz, 400);
  EXPECT_EQ(sampled->view.value, nullptr);
  EXPECT_EQ(Row(sampled->view, 0), Row(csr.view(), 0));
}

// Rows of very many edges: a block that ends with such a row whole would be as long as the row, however small the
// share.
TEST(SampleRowsTest, LongRowsAreCutToTwiceTheShare) {
  constexpr int64_t kRows = 64, kEdges = 64'000;
  const auto device = MakeCpuDevice(1);
  EdgeList graph;
  graph.num_nodes = kRows;
  for (int64_t e = 0; e < kEdges; ++e) {
    graph.source.push_back(static_cast<int32_t>(e % kRows));
    graph.target.push_back(static_cast<int32_t>(e / (kEdges / kRows)));
  }
  const Csr csr = BuildCsrByTarget(graph);
  constexpr double kShare = 0.001;
  const auto sampled = SampleRows(csr.view(), kShare, *device);
  ASSERT_TRUE(sampled.ok()) << sampled.status();
  const CsrView& view = sampled->view;
  EXPECT_EQ(view.nnz, static_cast<int64_t>(kMaxSampleExcess * kShare * kEdges));
  EXPECT_EQ(view.row_ptr[view.rows], view.nnz);
  ASSERT_EQ(view.rows, kSampleBlocks);
  for (int64_t row = 0; row < view.rows; ++row) EXPECT_EQ(view.row_ptr[row + 1] - view.row_ptr[row], 8);
  EXPECT_EQ(Row(view, 0), (std::vector<int32_t>{csr.col[0], csr.col[1], csr.col[2], csr.col[3], csr.col[4], csr.col[5],
                                                csr.col[6], csr.col[7]}));
}

// Where the whole sample is near its share, one long row in it stays whole.
TEST(SampleRowsTest, OneLongRowAmongShortOnesIsKept) {
  const auto device = MakeCpuDevice(1);
  EdgeList graph;
  graph.num_nodes = 10'000;
  const auto add = [&](int32_t row, int count) {
    for (int i = 0; i < count; ++i) graph.source.push_back(i), graph.target.push_back(row);
  };
  for (int32_t row = 0; row < graph.num_nodes; ++row) add(row, row == 312 ? 1500 : 10);
  const Csr csr = BuildCsrByTarget(graph);
  const auto sampled = SampleRows(csr.view(), 0.1, *device);
  ASSERT_TRUE(sampled.ok()) << sampled.status();
  int64_t longest = 0;
  for (int64_t row = 0; row < sampled->view.rows; ++row)
    longest = std::max(longest, sampled->view.row_ptr[row + 1] - sampled->view.row_ptr[row]);
  EXPECT_EQ(longest, 1500);
}

TEST(SampleRowsTest, GraphsOfOneRowAndWithoutEdges) {
  const auto device = MakeCpuDevice(1);
  EdgeList one;
  one.num_nodes = 1;
  const auto empty = SampleRows(BuildCsrByTarget(one).view(), 0.1, *device);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->view.nnz, 0);
  EXPECT_LE(empty->view.rows, 1);
}

}  // namespace
}  // namespace vicinal

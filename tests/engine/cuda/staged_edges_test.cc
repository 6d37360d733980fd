// SPDX-License-Identifier: Apache-2.0
// Hybrid partitioning on the host: every edge is staged or in the rest, by its source's degree alone; needs no GPU.
#include "engine/cuda/published/staged_rows/detail/staged_edges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/engine/cuda/host_csr.h"

namespace vicinal::cuda {
namespace {

// Every `nth` source is drawn `times` as often as the others; some edges stand there twice.
HostCsr FewSourcesOften(int64_t rows, int64_t cols, int64_t nth, int64_t times, bool weighted) {
  std::mt19937 random(3);
  HostCsr graph;
  graph.cols = cols;
  const int64_t often = (cols + nth - 1) / nth;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t e = 0; e < row % 23; ++e) {
      const int64_t draw = static_cast<int64_t>(random() % static_cast<uint64_t>(often * times + cols));
      graph.col.push_back(static_cast<int32_t>(draw < often * times ? draw % often * nth : draw - often * times));
    }
    std::sort(graph.col.begin() + graph.row_ptr.back(), graph.col.end());
    graph.row_ptr.push_back(static_cast<int64_t>(graph.col.size()));
  }
  if (weighted) {
    for (size_t e = 0; e < graph.col.size(); ++e) graph.value.push_back(static_cast<float>(e));
  }
  return graph;
}

using Edges = std::map<std::pair<int64_t, int32_t>, std::vector<float>>;  // (row, source) -> weights

void ExpectAllEdges(const HostCsr& graph, const HostStagedEdges& made) {
  const int64_t rows = graph.rows();
  Edges want, got;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t e = graph.row_ptr[row]; e < graph.row_ptr[row + 1]; ++e) {
      want[{row, graph.col[e]}].push_back(graph.value.empty() ? 1.0f : graph.value[e]);
    }
    for (int64_t e = made.rest_row_ptr[row]; e < made.rest_row_ptr[row + 1]; ++e) {
      got[{row, made.rest_col[e]}].push_back(graph.value.empty() ? 1.0f : made.rest_value[e]);
    }
    for (int64_t p = 0; p < made.partitions(); ++p) {
      const int32_t* begin = made.row_ptr.data() + p * (rows + 1) + row;
      for (int32_t e = begin[0]; e < begin[1]; ++e) {
        const int32_t source = made.source[p * kStagedSources + made.local[e]];
        got[{row, source}].push_back(graph.value.empty() ? 1.0f : made.value[e]);
      }
    }
  }
  EXPECT_EQ(got, want);
}

TEST(StagedEdgesTest, EveryEdgeIsInOnePlaceWithItsWeight) {
  ThreadPool one(1), two(2);
  for (const bool weighted : {false, true}) {
    const HostCsr graph = FewSourcesOften(20'000, 9'000, 5, 30, weighted);
    const HostStagedEdges made = BuildStagedEdges(graph.view(), 60, two);
    EXPECT_EQ(made.partitions(), 2) << "1,800 sources";
    ExpectAllEdges(graph, made);
    const HostStagedEdges alone = BuildStagedEdges(graph.view(), 60, one);
    EXPECT_EQ(alone.local, made.local);
    EXPECT_EQ(alone.row_ptr, made.row_ptr);
    EXPECT_EQ(alone.rest_col, made.rest_col);
  }
}

TEST(StagedEdgesTest, DegreesDecideWhatIsStaged) {
  ThreadPool pool(2);
  const HostCsr graph = FewSourcesOften(5'000, 3'000, 5, 30, false);
  std::vector<int64_t> degree(graph.cols, 0);
  for (const int32_t source : graph.col) ++degree[source];
  const HostStagedEdges made = BuildStagedEdges(graph.view(), 40, pool);
  for (int32_t source = 0; source < graph.cols; ++source) {
    EXPECT_EQ(std::count(made.source.begin(), made.source.end(), source), degree[source] >= 40 ? 1 : 0) << source;
  }
  EXPECT_EQ(BuildStagedEdges(graph.view(), 100'000, pool).partitions(), 0);
}

TEST(StagedEdgesTest, TooManySourcesLeaveThoseOfMostEdges) {
  ThreadPool pool(2);
  const HostCsr graph = FewSourcesOften(30'000, 60'000, 3, 2, false);
  const HostStagedEdges made = BuildStagedEdges(graph.view(), 1, pool);
  EXPECT_EQ(made.partitions(), kMaxPartitions);
  ExpectAllEdges(graph, made);
  std::vector<int64_t> degree(graph.cols, 0);
  for (const int32_t source : graph.col) ++degree[source];
  int64_t least = graph.row_ptr.back();
  for (const int32_t source : made.source) least = std::min(least, std::exchange(degree[source], 0));
  EXPECT_LE(*std::max_element(degree.begin(), degree.end()), least);
}

TEST(StagedEdgesTest, RunsCoverAllRowsAndAreAboutEqual) {
  ThreadPool pool(2);
  const HostCsr graph = FewSourcesOften(20'000, 9'000, 5, 30, false);
  const HostStagedEdges made = BuildStagedEdges(graph.view(), 60, pool);
  for (int64_t p = 0; p < made.partitions(); ++p) {
    const int32_t* border = made.border.data() + p * (kRowRuns + 1);
    const int32_t* row_ptr = made.row_ptr.data() + p * (graph.rows() + 1);
    EXPECT_EQ(border[0], 0);
    EXPECT_EQ(border[kRowRuns], graph.rows());
    const int64_t all = row_ptr[graph.rows()] - row_ptr[0] + 2 * graph.rows();
    for (int run = 0; run < kRowRuns; ++run) {
      ASSERT_LE(border[run], border[run + 1]);
      const int64_t cost = row_ptr[border[run + 1]] - row_ptr[border[run]] + 2 * (border[run + 1] - border[run]);
      EXPECT_NEAR(static_cast<double>(cost), static_cast<double>(all) / kRowRuns, 60.0);
    }
  }
}

TEST(StagedEdgesTest, TheBoundHolds) {
  ThreadPool pool(2);
  const HostCsr graph = FewSourcesOften(20'000, 9'000, 5, 30, true);
  const HostStagedEdges made = BuildStagedEdges(graph.view(), 60, pool);
  const size_t bytes = 4 * (made.source.size() + made.row_ptr.size() + made.border.size() + made.value.size() +
                            made.rest_col.size() + made.rest_value.size()) +
                       2 * made.local.size() + 8 * made.rest_row_ptr.size();
  EXPECT_LE(static_cast<int64_t>(bytes), StagedEdgesBytesBound(graph.rows(), graph.row_ptr.back()));
}

}  // namespace
}  // namespace vicinal::cuda

// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels prepare from an adjacency, on the host: needs no GPU. Every edge is in one place, nothing
// exceeds its limits, and the number of threads does not show.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "engine/cuda/published/groups/neighbor_group_layout.h"
#include "engine/cuda/published/partition_dual/detail/edge_blocks.h"
#include "tests/engine/cuda/host_csr.h"

namespace vicinal::cuda {
namespace {

// Rows of every length, hubs and empty ones among them, with some edges several times.
HostCsr Skewed(int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  HostCsr graph;
  graph.cols = cols;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t degree = row % 97 == 5 ? 3000 : row % 7 == 0 ? 0 : static_cast<int64_t>(random() % 40);
    // Half of a row's edges lie nearby.
    for (int64_t e = 0; e < degree; ++e) {
      const int64_t near =
          std::clamp<int64_t>(row * cols / rows + static_cast<int64_t>(random() % 60) - 30, 0, cols - 1);
      graph.col.push_back(static_cast<int32_t>(e % 2 == 0 ? near : static_cast<int64_t>(random() % cols)));
    }
    std::sort(graph.col.begin() + graph.row_ptr.back(), graph.col.end());
    graph.row_ptr.push_back(static_cast<int64_t>(graph.col.size()));
  }
  return graph;
}

TEST(NeighborGroupsTest, CoverEveryRowInOrder) {
  const HostCsr graph = Skewed(40'000, 500, 1);
  ThreadPool one(1), two(2);
  for (const int size : {4, 7, 64}) {
    for (const int per_block : {1, 4, 128}) {
      const HostNeighborGroups made = BuildNeighborGroups(graph.row_ptr.data(), 40'000, size, per_block, two);
      int64_t row = -1, edge = 0;
      for (size_t g = 0; g < made.groups.size(); ++g) {
        const NeighborGroup& group = made.groups[g];
        ASSERT_EQ(group.begin, edge);
        ASSERT_LE(group.size, size);
        const bool next_row = g == 0 || group.row != made.groups[g - 1].row;
        if (next_row) ++row;
        ASSERT_EQ(group.row, row);
        const bool opens = g % per_block == 0;
        const int expected = opens ? 0 : made.groups[g - 1].address + (next_row ? 1 : 0);
        ASSERT_EQ(group.address, expected);
        edge += group.size;
        ASSERT_TRUE(edge == graph.row_ptr[row + 1] || group.size == size) << "only the last group is not full";
      }
      EXPECT_EQ(row, 39'999);
      EXPECT_EQ(edge, graph.row_ptr.back());
      const auto alone = BuildNeighborGroups(graph.row_ptr.data(), 40'000, size, per_block, one);
      ASSERT_EQ(alone.groups.size(), made.groups.size());
      EXPECT_EQ(alone.splits.size(), made.splits.size());
    }
  }
}

// The pieces of a split row are the cells that its blocks write: two for each block, the first for its first row.
TEST(NeighborGroupsTest, SplitRowsNameTheCellsOfTheirBlocks) {
  const HostCsr graph = Skewed(3'000, 500, 2);
  ThreadPool pool(2);
  for (const int per_block : {1, 3, 32}) {
    const HostNeighborGroups made = BuildNeighborGroups(graph.row_ptr.data(), 3'000, 16, per_block, pool);
    std::vector<std::vector<int64_t>> cells(3'000);
    for (size_t g = 0; g < made.groups.size(); ++g) {
      const int64_t cell = 2 * static_cast<int64_t>(g / per_block) + (made.groups[g].address == 0 ? 0 : 1);
      std::vector<int64_t>& of_row = cells[made.groups[g].row];
      if (of_row.empty() || of_row.back() != cell) of_row.push_back(cell);
    }
    size_t next = 0;
    for (int64_t row = 0; row < 3'000; ++row) {
      if (cells[row].size() == 1) continue;
      ASSERT_LT(next, made.splits.size());
      const SpreadRow& split = made.splits[next++];
      EXPECT_EQ(split.row, row);
      ASSERT_EQ(split.pieces, static_cast<int32_t>(cells[row].size()));
      for (int64_t piece = 0; piece < split.pieces; ++piece) {
        EXPECT_EQ(cells[row][piece], piece == 0 ? split.first : 2 * (split.first / 2 + piece));
      }
    }
    EXPECT_EQ(next, made.splits.size());
  }
}

TEST(CutPartsTest, RespectsBlocksAndSizes) {
  EXPECT_EQ(CutParts({}, 0, 64), (std::vector<int64_t>{0}));
  EXPECT_EQ(CutParts({}, 64, 64), (std::vector<int64_t>{0, 64}));
  EXPECT_EQ(CutParts({}, 130, 64), (std::vector<int64_t>{0, 43, 86, 130}));
  const std::vector<int64_t> blocks = {0, 10, 30, 64, 100, 300, 301, 320};
  EXPECT_EQ(CutParts(blocks, 320, 64), (std::vector<int64_t>{0, 64, 100, 150, 200, 250, 301, 320}));
  EXPECT_EQ(CutParts(blocks, 400, 200), (std::vector<int64_t>{0, 200, 400})) << "blocks of another graph";
  std::mt19937 random(4);
  for (int turn = 0; turn < 200; ++turn) {
    std::vector<int64_t> borders = {0};
    while (borders.back() < 2'000) borders.push_back(borders.back() + 1 + static_cast<int64_t>(random() % 300));
    const std::vector<int64_t> parts = CutParts(borders, borders.back(), 64);
    EXPECT_EQ(parts.front(), 0);
    EXPECT_EQ(parts.back(), borders.back());
    for (size_t p = 1; p < parts.size(); ++p) {
      ASSERT_GT(parts[p], parts[p - 1]);
      ASSERT_LE(parts[p] - parts[p - 1], 64);
    }
  }
}

TEST(EdgeBlocksTest, EveryEdgeIsInAMaskOrInTheRest) {
  for (const int64_t least : {1, 40, 1'000'000}) {
    const HostCsr graph = Skewed(1'000, 700, 3);
    const CsrView view = graph.view();
    ThreadPool one(1), two(2);
    const auto row_parts = CutParts({}, 1'000, kStripRows), column_parts = CutParts({}, 700, kTileColumns);
    const HostEdgeBlocks made = BuildEdgeBlocks(view, row_parts, column_parts, least, two);
    const HostEdgeBlocks alone = BuildEdgeBlocks(view, row_parts, column_parts, least, one);
    EXPECT_EQ(made.masks, alone.masks);
    EXPECT_EQ(made.rest_col, alone.rest_col);
    std::vector<std::vector<int32_t>> rows(1'000);
    for (int64_t row = 0; row < 1'000; ++row) {
      rows[row].assign(made.rest_col.begin() + made.rest_row_ptr[row],
                       made.rest_col.begin() + made.rest_row_ptr[row + 1]);
      EXPECT_TRUE(std::is_sorted(rows[row].begin(), rows[row].end()));
    }
    int32_t most = 1 << 30;
    for (const RowStrip& strip : made.strips) {
      EXPECT_LE(strip.tiles, most) << "heavy ones first";
      most = strip.tiles;
      for (int64_t tile = strip.first_tile; tile < strip.first_tile + strip.tiles; ++tile) {
        int64_t edges = 0;
        for (int r = 0; r < kStripRows; ++r) {
          for (uint64_t mask = made.masks[tile * kStripRows + r]; mask != 0; mask &= mask - 1, ++edges) {
            ASSERT_LT(r, strip.rows);
            rows[strip.row + r].push_back(made.tile_column[tile] + __builtin_ctzll(mask));
          }
        }
        EXPECT_GE(edges, least);
      }
    }
    EXPECT_EQ(made.strips.empty(), least == 1'000'000);
    for (int64_t row = 0; row < 1'000; ++row) {
      std::sort(rows[row].begin(), rows[row].end());
      ASSERT_EQ(rows[row], std::vector<int32_t>(graph.col.begin() + graph.row_ptr[row],
                                                graph.col.begin() + graph.row_ptr[row + 1]));
    }
  }
}

}  // namespace
}  // namespace vicinal::cuda

// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels prepare from an adjacency, on the host: needs no GPU. Every edge is in one place, nothing
// exceeds its limits, and the number of threads does not show.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
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

TEST(PartBordersTest, PrefersTheBordersOfBlocks) {
  EXPECT_EQ(PartBorders({}, 100, 4), (std::vector<int64_t>{0, 25, 50, 75, 100}));
  EXPECT_EQ(PartBorders({}, 3, 8), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(PartBorders({}, 0, 8), (std::vector<int64_t>{0}));
  const std::vector<int64_t> blocks = {0, 20, 48, 90, 100};
  EXPECT_EQ(PartBorders(blocks, 100, 4), (std::vector<int64_t>{0, 20, 48, 75, 100})) << "90 is too far from 75";
  EXPECT_EQ(PartBorders(blocks, 100, 1), (std::vector<int64_t>{0, 100}));
  EXPECT_EQ(PartBorders(blocks, 200, 2), (std::vector<int64_t>{0, 100, 200})) << "blocks of another graph";
}

TEST(CutEachTest, CutsEveryPartByItself) {
  EXPECT_EQ(CutEach(std::vector<int64_t>{0, 10, 74, 139}, 64), (std::vector<int64_t>{0, 10, 74, 106, 139}));
  EXPECT_EQ(EvenBorders(130, 64), (std::vector<int64_t>{0, 64, 128, 130}));
  EXPECT_EQ(EvenBorders(0, 64), (std::vector<int64_t>{0}));
}

TEST(ExactInTermsTest, OnlyTheSmallestAndTheInfiniteAreNot) {
  for (const float x : {0.0f, -0.0f, 1.0f, -3.1415927f, 0x1.fffffep127f, 0x1.fffffep-100f, 0x1p-133f}) {
    EXPECT_TRUE(ExactInTerms(x)) << x;
  }
  for (const float x : {INFINITY, -INFINITY, NAN, 0x1p-149f, 0x1.fffffep-126f}) EXPECT_FALSE(ExactInTerms(x)) << x;
}

// (column, weight) of every edge of each row, from masks and rest; weight 1 without weights. Checks the tiles' shape.
using Entries = std::vector<std::pair<int32_t, float>>;
std::vector<Entries> EntriesOf(const MaskedTiles& tiles, const TileRule& rule) {
  std::vector<Entries> rows(tiles.rest_row_ptr.size() - 1);
  for (size_t strip = 0; strip + 1 < rule.strips.size(); ++strip) {
    for (int64_t tile = tiles.first_tile[strip]; tile < tiles.first_tile[strip + 1]; ++tile) {
      const auto column = std::find(rule.columns.begin(), rule.columns.end(), tiles.tile_column[tile]);
      EXPECT_NE(column, rule.columns.end());
      for (int64_t r = 0; r < kTileRows; ++r) {
        int64_t value = tiles.values.empty() ? 0 : tiles.first_value[tile] + tiles.row_offsets[tile * kTileRows + r];
        for (uint64_t mask = tiles.masks[tile * kTileRows + r]; mask != 0; mask &= mask - 1) {
          const int bit = __builtin_ctzll(mask);
          EXPECT_LT(rule.strips[strip] + r, rule.strips[strip + 1]);
          EXPECT_LT(tiles.tile_column[tile] + bit, column[1]);
          rows[rule.strips[strip] + r].emplace_back(tiles.tile_column[tile] + bit,
                                                    tiles.values.empty() ? 1.0f : tiles.values[value++]);
        }
      }
    }
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    for (int64_t e = tiles.rest_row_ptr[row]; e < tiles.rest_row_ptr[row + 1]; ++e) {
      rows[row].emplace_back(tiles.rest_col[e], tiles.rest_value.empty() ? 1.0f : tiles.rest_value[e]);
    }
    std::sort(rows[row].begin(), rows[row].end());
  }
  return rows;
}

std::vector<Entries> EntriesOf(const HostCsr& graph) {
  std::vector<Entries> rows(graph.rows());
  for (int64_t row = 0; row < graph.rows(); ++row) {
    for (int64_t e = graph.row_ptr[row]; e < graph.row_ptr[row + 1]; ++e) {
      rows[row].emplace_back(graph.col[e], graph.value.empty() ? 1.0f : graph.value[e]);
    }
    std::sort(rows[row].begin(), rows[row].end());
  }
  return rows;
}

TEST(MaskedTilesTest, EveryEdgeIsInAMaskOrInTheRest) {
  HostCsr graph = Skewed(1'000, 700, 3);
  ThreadPool one(1), two(2);
  for (const bool weighted : {false, true}) {
    // One weight in 50 is too small for a mask.
    for (int64_t e = 0; e < graph.row_ptr.back() && weighted; ++e) {
      graph.value.push_back(e % 50 == 7 ? 0x1.8p-149f : static_cast<float>(e) / 7.0f);
    }
    for (const int64_t parts : {0, 5}) {
      for (const int64_t least : {1, 40, 1'000'000}) {
        const TileRule rule = EdgeBlockRule(graph.view(), {}, parts, least);
        const MaskedTiles made = FindMaskedTiles(graph.view(), rule, two);
        const MaskedTiles alone = FindMaskedTiles(graph.view(), rule, one);
        EXPECT_EQ(made.masks, alone.masks);
        EXPECT_EQ(made.values, alone.values);
        EXPECT_EQ(made.rest_col, alone.rest_col);
        EXPECT_EQ(made.tile_column.empty(), least == 1'000'000);
        EXPECT_EQ(EntriesOf(made, rule), EntriesOf(graph));
        for (const float value : made.values) ASSERT_TRUE(ExactInTerms(value));
      }
    }
  }
}

TEST(MaskedTilesTest, TilesHaveTheEdgesThatTheRuleAsksFor) {
  const HostCsr graph = Skewed(1'000, 700, 3);
  ThreadPool pool(2);
  const TileRule rule = EdgeBlockRule(graph.view(), {}, 0, 40);
  const MaskedTiles made = FindMaskedTiles(graph.view(), rule, pool);
  EXPECT_FALSE(made.tile_column.empty());
  for (size_t tile = 0; tile < made.tile_column.size(); ++tile) {
    int edges = 0;
    for (int r = 0; r < kTileRows; ++r) edges += __builtin_popcountll(made.masks[tile * kTileRows + r]);
    EXPECT_GE(edges, 40);
  }
}

// Two blocks of 300 nodes, one of them complete, the other empty but for one edge: all tiles of the complete one.
TEST(MaskedTilesTest, WholeBlocksAreDenseOrNot) {
  HostCsr graph;
  graph.cols = 600;
  for (int64_t row = 0; row < 600; ++row) {
    for (int32_t source = 0; source < 300 && row < 300; ++source) graph.col.push_back(source);
    if (row == 100) graph.col.push_back(550);
    if (row == 599) graph.col.insert(graph.col.end(), {0, 599});
    graph.row_ptr.push_back(static_cast<int64_t>(graph.col.size()));
  }
  ThreadPool pool(2);
  const std::vector<int64_t> blocks = {0, 290, 300, 600};
  const TileRule rule = EdgeBlockRule(graph.view(), blocks, 2, 100);
  EXPECT_EQ(rule.row_blocks, (std::vector<int64_t>{0, 300, 600}));
  const MaskedTiles made = FindMaskedTiles(graph.view(), rule, pool);
  EXPECT_EQ(made.tile_column.size(), 3u * 5u) << "300 rows are three strips, 300 columns five";
  EXPECT_EQ(made.rest_col, (std::vector<int32_t>{550, 0, 599}));
}

TEST(EdgeBlocksTest, HeavyStripsFirstAndNoneWithoutTiles) {
  const HostCsr graph = Skewed(1'000, 700, 3);
  ThreadPool pool(2);
  const TileRule rule = EdgeBlockRule(graph.view(), {}, 0, 60);
  const HostEdgeBlocks made = BuildEdgeBlocks(graph.view(), rule, pool);
  int32_t most = 1 << 30;
  int64_t tiles = 0;
  for (const RowStrip& strip : made.strips) {
    EXPECT_GT(strip.tiles, 0);
    EXPECT_LE(strip.tiles, most);
    most = strip.tiles;
    tiles += strip.tiles;
  }
  EXPECT_EQ(tiles, static_cast<int64_t>(made.tile_column.size()));
}

}  // namespace
}  // namespace vicinal::cuda

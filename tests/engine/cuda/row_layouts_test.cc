// SPDX-License-Identifier: Apache-2.0
// What binned_rows, length_sorted_rows and dense_tiles prepare from an adjacency, on the host: needs no GPU. Every edge
// is worked on once, copies of an edge too; nothing is longer than it may be; the number of threads does not show.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "engine/cuda/aggregate/dense_tiles/dense_tiles.h"
#include "engine/cuda/aggregate/length_sorted_rows/length_sorted_rows.h"
#include "engine/cuda/aggregate/rows/row_work.h"
#include "tests/engine/cuda/host_csr.h"

namespace vicinal::cuda {
namespace {

// Communities of 150 nodes, a hub, empty rows, and every eleventh edge twice.
HostCsr Communities(int64_t nodes, int64_t hub_edges) {
  std::mt19937 random(3);
  HostCsr graph;
  graph.cols = nodes;
  for (int64_t row = 0; row < nodes; ++row) {
    const int64_t degree = row == 70 ? hub_edges : row % 9 == 0 ? 0 : 5 + row % 40;
    const int64_t first = row / 150 * 150;
    for (int64_t e = 0; e < degree; ++e) {
      const int64_t near = std::min<int64_t>(nodes - 1, first + static_cast<int64_t>(random() % 150));
      graph.col.push_back(static_cast<int32_t>(e % 5 == 0 ? static_cast<int64_t>(random() % nodes) : near));
      if (e % 11 == 3) graph.col.push_back(graph.col.back());
    }
    std::sort(graph.col.begin() + graph.row_ptr.back(), graph.col.end());
    graph.row_ptr.push_back(static_cast<int64_t>(graph.col.size()));
  }
  return graph;
}

// A ring: `degree` edges into every row, but some rows of `more`.
HostCsr Ring(int32_t nodes, int32_t degree, int32_t more) {
  HostCsr graph;
  graph.row_ptr = {0};
  for (int32_t row = 0; row < nodes; ++row) {
    for (int32_t e = 0; e < (row % 1000 == 3 ? more : degree); ++e) graph.col.push_back((row + e) % nodes);
    graph.row_ptr.push_back(static_cast<int64_t>(graph.col.size()));
  }
  return graph;
}

// The row that an item is of.
int32_t RowOf(const RowWork& work, const RowItem& item) {
  if (item.row >= 0) return item.row;
  for (const SplitRow& split : work.splits) {
    if (~item.row < split.first_part + split.parts) return split.row;
  }
  return -1;
}

TEST(RowWorkTest, EveryEdgeIsInOneItem) {
  ThreadPool pool(2);
  for (const auto& [nodes, hub] : {std::pair{1'500, 900}, {9'000, 10}, {9'000, 300}, {9'000, 5'000}}) {
    const HostCsr graph = Communities(nodes, hub);
    const RowWork work = MakeRowWork(graph.view(), pool);
    std::vector<int> seen(graph.col.size(), 0);
    std::vector<int> items_of_row(graph.rows(), 0);
    for (const RowItem& item : work.items) {
      if (item.count < 0) continue;
      const int32_t row = RowOf(work, item);
      EXPECT_LE(item.count, PartEdges(graph.row_ptr.back()));
      EXPECT_GE(item.begin, graph.row_ptr[row]);
      EXPECT_LE(item.begin + item.count, graph.row_ptr[row + 1]);
      for (int64_t e = item.begin; e < item.begin + item.count; ++e) ++seen[e];
      ++items_of_row[row];
    }
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
    EXPECT_TRUE(std::all_of(items_of_row.begin(), items_of_row.end(), [](int n) { return n >= 1; }));
    EXPECT_LE(work.num_parts, MaxParts(graph.row_ptr.back()));
    const size_t splits = work.splits.size() + work.split_of_part.size();
    EXPECT_LE(static_cast<int64_t>(work.items.size() * sizeof(RowItem) + splits * sizeof(SplitRow)),
              RowWorkLayout::BytesBound(graph.rows(), graph.row_ptr.back()));
  }
}

TEST(RowWorkTest, LongRowsAreCutFromTheirOwnBeginning) {
  ThreadPool pool(1);
  const HostCsr graph = Communities(9'000, 5'000);
  const RowWork work = MakeRowWork(graph.view(), pool);
  const int64_t edges = graph.row_ptr[71] - graph.row_ptr[70];
  ASSERT_EQ(work.splits.size(), 1u);
  EXPECT_EQ(work.splits[0].row, 70);
  ASSERT_EQ(work.splits[0].parts, (edges + kPieceEdges - 1) / kPieceEdges);
  EXPECT_EQ(work.num_parts, work.splits[0].parts);
  int64_t next = 0;
  for (const RowItem& item : work.items) {
    if (item.count < 0 || item.row >= 0) continue;
    EXPECT_EQ(~item.row, next);
    EXPECT_EQ(item.begin, graph.row_ptr[70] + next * kPieceEdges);
    ++next;
  }
  EXPECT_EQ(next, work.num_parts);
}

TEST(RowWorkTest, FewPartsKnowTheirRow) {
  ThreadPool pool(1);
  for (const auto& [nodes, hub] : {std::pair{1'500, 900}, {9'000, 5'000}}) {
    const RowWork work = MakeRowWork(Communities(nodes, hub).view(), pool);
    ASSERT_GT(work.num_parts, 1);
    ASSERT_EQ(static_cast<int64_t>(work.split_of_part.size()), work.num_parts);
    for (int64_t part = 0; part < work.num_parts; ++part) {
      const SplitRow& split = work.split_of_part[part];
      EXPECT_EQ(split.row, 70);
      EXPECT_LE(split.first_part, part);
      EXPECT_LT(part, split.first_part + split.parts);
    }
  }
  // Rows of 600 edges are parts and nothing else.
  const RowWork work = MakeRowWork(Ring(1'000, 600, 600).view(), pool);
  EXPECT_EQ(work.num_parts, 3'000);
  EXPECT_TRUE(work.split_of_part.empty());
}

TEST(RowWorkTest, BundlesHaveOneLongRowOrShortOnesLongestFirst) {
  ThreadPool pool(2);
  const HostCsr graph = Communities(40'000, 300);
  const RowWork work = MakeRowWork(graph.view(), pool);
  EXPECT_EQ(work.num_blocks, 0);
  EXPECT_EQ(work.num_short, 0);
  int full = 0;
  for (int64_t bundle = 0; bundle < work.num_bundles(); ++bundle) {
    const RowItem* const items = &work.items[bundle * kBundleItems];
    EXPECT_GE(items[0].count, 0);
    for (int i = 1; i < kBundleItems; ++i) {
      EXPECT_LE(items[i].count, items[0].count > kShortEdges ? -1 : items[i - 1].count);
    }
    if (items[kBundleItems - 1].count >= 0) ++full;
  }
  EXPECT_GT(full, 0);
}

TEST(LengthSortedWorkTest, EveryEdgeIsInOneItemOfItsRow) {
  ThreadPool pool(2);
  for (const int64_t hub : {10, 300, 5'000}) {
    for (const LengthSortedConfig& config :
         {LengthSortedConfig{}, {.part = kMinPart}, {.part = 128, .window = 1'000}}) {
      const HostCsr graph = Communities(9'000, hub);
      const RowWork work = MakeLengthSortedWork(graph.view(), config, pool);
      std::vector<int> seen(graph.col.size(), 0);
      for (const RowItem& item : work.items) {
        const int32_t row = RowOf(work, item);
        EXPECT_LE(item.count, config.part);
        EXPECT_GE(item.begin, graph.row_ptr[row]);
        EXPECT_LE(item.begin + item.count, graph.row_ptr[row + 1]);
        for (int64_t e = item.begin; e < item.begin + item.count; ++e) ++seen[e];
      }
      EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
      EXPECT_EQ(work.num_short, static_cast<int64_t>(work.items.size()));
      // A row without edges has an item, too: its result is to be written.
      EXPECT_EQ(work.num_short, graph.rows() - static_cast<int64_t>(work.splits.size()) + work.num_parts);
      EXPECT_LE(static_cast<int64_t>(work.items.size() * sizeof(RowItem) + work.splits.size() * sizeof(SplitRow)),
                LengthSortedBytesBound(graph.rows(), graph.row_ptr.back()));
    }
  }
}

TEST(LengthSortedWorkTest, PartsOfARowAreOfLikeLengthAndFollowOneAnother) {
  for (const int64_t count : {0, 1, 64, 65, 500, 100'001}) {
    const int64_t parts = PartsOf(count, 64);
    EXPECT_EQ(PartBegin(count, parts, 0), 0);
    EXPECT_EQ(PartBegin(count, parts, parts), count);
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t edges = PartBegin(count, parts, part + 1) - PartBegin(count, parts, part);
      EXPECT_LE(edges, 64);
      EXPECT_GE(edges, count / parts);
    }
  }
}

TEST(LengthSortedWorkTest, FirstPartsComeBeforeSecondOnesAndLongItemsBeforeShortOnes) {
  HostCsr graph;
  graph.row_ptr = {0};
  graph.cols = 1'000;
  for (const int64_t degree : {3, 130, 7, 190, 64}) {
    for (int64_t e = 0; e < degree; ++e) graph.col.push_back(static_cast<int32_t>(e));
    graph.row_ptr.push_back(static_cast<int64_t>(graph.col.size()));
  }
  ThreadPool pool(1);
  const RowWork work = MakeLengthSortedWork(graph.view(), {.part = 64}, pool);
  // Rows 1 and 3 have three parts each, numbered row by row.
  std::vector<int32_t> order;
  for (const RowItem& item : work.items) order.push_back(item.row);
  EXPECT_EQ(order, (std::vector<int32_t>{~3, ~0, ~4, ~1, ~5, ~2, 4, 2, 0}));
}

TEST(RowWorkTest, ManyRowsOfFewEdgesHaveWideBundles) {
  ThreadPool pool(2);
  const HostCsr graph = Ring(140'000, 2, 40);
  const RowWork work = MakeRowWork(graph.view(), pool);
  ASSERT_EQ(work.bundle_items, kWideItems);
  ASSERT_EQ(static_cast<int64_t>(work.items.size()), work.num_bundles() * kWideItems);
  EXPECT_EQ(MakeRowWork(Ring(140'000, 5, 5).view(), pool).bundle_items, kBundleItems);
  EXPECT_EQ(MakeRowWork(Ring(140'000, 5, 5).view(), pool, kWideUpToCheapRows).bundle_items, kWideItems);
  EXPECT_EQ(MakeRowWork(Ring(140'000, 17, 17).view(), pool, kWideUpToCheapRows).bundle_items, kBundleItems);
  EXPECT_EQ(MakeRowWork(Ring(100'000, 2, 2).view(), pool, kWideUpToCheapRows).bundle_items, kBundleItems);
  int64_t rows = 0, full = 0;
  for (int64_t bundle = 0; bundle < work.num_bundles(); ++bundle) {
    const RowItem* const items = &work.items[bundle * kWideItems];
    for (int i = 0; i < kWideItems; ++i) rows += items[i].count >= 0 ? 1 : 0;
    if (items[0].count > kShortEdges) {
      EXPECT_LT(items[1].count, 0);
    }
    full += items[kWideItems - 1].count >= 0 ? 1 : 0;
  }
  EXPECT_EQ(rows, graph.rows());
  EXPECT_GT(full, 140'000 / kWideItems * 9 / 10);
  EXPECT_LE(static_cast<int64_t>(work.items.size() * sizeof(RowItem)),
            RowWorkLayout::BytesBound(graph.rows(), graph.row_ptr.back()));
}

// What dense tiles leave of a graph is cut by its own number of edges, and booked by the graph's.
TEST(RowWorkTest, BoundsHoldForFewerEdges) {
  constexpr int64_t kJustMore = kPieceEdges + 1;  // edges of a row of two parts
  EXPECT_GE(MaxParts(kManyEdges), 2 * ((kManyEdges - 1) / kJustMore));
  for (const int64_t rows : {1'000, 200'000, 3'000'000}) {
    int64_t parts = 0, bytes = 0;
    for (int64_t edges = 0; edges < 4 * kManyEdges; edges += 99'991) {
      EXPECT_GE(MaxParts(edges), parts) << edges;
      EXPECT_GE(RowWorkLayout::BytesBound(rows, edges), bytes) << rows << ", " << edges;
      parts = MaxParts(edges);
      bytes = RowWorkLayout::BytesBound(rows, edges);
    }
  }
}

TEST(RowWorkTest, InSmallGraphsLongRowsHaveBlocks) {
  ThreadPool pool(2);
  const HostCsr graph = Communities(1'500, 300);
  const RowWork work = MakeRowWork(graph.view(), pool);
  EXPECT_GT(work.num_blocks, 0);
  EXPECT_GE(work.num_blocks, work.num_parts);
  for (int64_t i = 0; i < static_cast<int64_t>(work.items.size()); ++i) {
    const RowItem& item = work.items[i];
    EXPECT_EQ(i < work.num_blocks, item.row < 0 || item.count > kShortEdges);
    EXPECT_GE(item.count, 0);
  }
  EXPECT_EQ(work.num_short, static_cast<int64_t>(work.items.size()) - work.num_blocks);
  EXPECT_EQ(work.num_bundles(), 0);
}

// Two windows, and what is left.
TEST(RowWorkTest, WholeRowsComeLongestFirstWithinTheirWindow) {
  ThreadPool pool(2);
  const HostCsr graph = Ring(static_cast<int32_t>(kLastWindowRows + kSortWindow) + 1'000, 5, 40);
  const RowWork work = MakeRowWork(graph.view(), pool);
  const auto window = [](int32_t row) { return std::min<int64_t>(row / kSortWindow, 2); };
  const RowItem* before = nullptr;
  for (size_t i = work.num_blocks; i < work.items.size(); ++i) {
    const RowItem& item = work.items[i];
    if (item.count < 0) continue;
    if (before != nullptr && window(before->row) == window(item.row)) {
      EXPECT_GE(before->count, item.count);
    } else if (before != nullptr) {
      EXPECT_LT(window(before->row), window(item.row));
    }
    before = &item;
  }
}

TEST(RowWorkTest, TheLastWindowHasNotTooManyEdges) {
  ThreadPool pool(2);
  const HostCsr graph = Ring(3 * kSortWindow, 200, 250);
  const RowWork work = MakeRowWork(graph.view(), pool);
  int32_t first = graph.rows();  // the longest row of the last window is its first item
  for (const RowItem& item : work.items) {
    if (item.count == 250 && item.row >= kSortWindow) first = std::min(first, item.row);
  }
  std::vector<int32_t> order;
  for (const RowItem& item : work.items) {
    if (item.count >= 0) order.push_back(item.row);
  }
  // The first window has its rows alone; the two others are one: 8,192 rows of 200 edges are few enough.
  EXPECT_TRUE(std::all_of(order.begin(), order.begin() + kSortWindow, [](int32_t row) { return row < kSortWindow; }));
  EXPECT_EQ(order[kSortWindow], first);
}

using EdgeCounts = std::map<std::pair<int64_t, int32_t>, int>;

EdgeCounts CountsOf(const HostCsr& graph) {
  EdgeCounts counts;
  for (int64_t row = 0; row < graph.rows(); ++row) {
    for (int64_t e = graph.row_ptr[row]; e < graph.row_ptr[row + 1]; ++e) ++counts[{row, graph.col[e]}];
  }
  return counts;
}

// Edges of masks and rest together; a mask's tiles are those that its pieces name.
EdgeCounts CountsOf(const HostDenseTiles& tiles, int64_t rows) {
  EdgeCounts counts;
  for (size_t block = 0; block + 1 < tiles.first_piece.size(); ++block) {
    for (const TilePiece& piece : tiles.pieces) {
      if (piece.sums < tiles.first_piece[block] || piece.sums >= tiles.first_piece[block + 1]) continue;
      for (int64_t tile = piece.first; tile < piece.first + piece.count; ++tile) {
        for (int64_t within = 0; within < kTileRows; ++within) {
          for (int bit = 0; bit < kTileCols; ++bit) {
            if ((tiles.masks[tile * kTileRows + within] >> bit & 1) == 0) continue;
            ++counts[{static_cast<int64_t>(block) * kTileRows + within, tiles.tile_col[tile] * kTileCols + bit}];
          }
        }
      }
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t e = tiles.row_ptr[row]; e < tiles.row_ptr[row + 1]; ++e) ++counts[{row, tiles.col[e]}];
  }
  return counts;
}

TEST(DenseTilesTest, MasksAndRestHoldEveryEdgeAsOftenAsItStands) {
  ThreadPool pool(2);
  const HostCsr graph = Communities(3'001, 1'500);
  for (const int64_t threshold : {1, 64, 400}) {
    const HostDenseTiles tiles = FindDenseTiles(graph.view(), threshold, pool);
    EXPECT_FALSE(tiles.tile_col.empty());
    EXPECT_EQ(CountsOf(tiles, graph.rows()), CountsOf(graph));
  }
}

TEST(DenseTilesTest, PiecesAreLongestFirstAndWithinTheirBound) {
  ThreadPool pool(2);
  const HostCsr graph = Communities(3'001, 1'500);
  const HostDenseTiles tiles = FindDenseTiles(graph.view(), 1, pool);
  EXPECT_LE(static_cast<int64_t>(tiles.pieces.size()), MaxTilePieces(graph.rows()));
  EXPECT_TRUE(std::is_sorted(tiles.pieces.begin(), tiles.pieces.end(),
                             [](const TilePiece& a, const TilePiece& b) { return a.count > b.count; }));
  EXPECT_EQ(tiles.first_piece.back(), static_cast<int32_t>(tiles.pieces.size()));
}

TEST(DenseTilesTest, NothingIsDenseWhereNoTileReachesTheThreshold) {
  ThreadPool pool(1);
  const HostCsr graph = Communities(3'001, 1'500);
  const HostDenseTiles tiles = FindDenseTiles(graph.view(), kTileRows * kTileCols + 1, pool);
  EXPECT_TRUE(tiles.tile_col.empty());
  EXPECT_TRUE(tiles.pieces.empty());
  EXPECT_EQ(tiles.row_ptr, graph.row_ptr);
  EXPECT_EQ(tiles.col, graph.col);
}

TEST(DenseTilesTest, ThreadsDoNotShow) {
  ThreadPool one(1), two(2);
  const HostCsr graph = Communities(3'001, 1'500);
  const HostDenseTiles a = FindDenseTiles(graph.view(), 64, one), b = FindDenseTiles(graph.view(), 64, two);
  EXPECT_EQ(a.tile_col, b.tile_col);
  EXPECT_EQ(a.masks, b.masks);
  EXPECT_EQ(a.row_ptr, b.row_ptr);
  EXPECT_EQ(a.col, b.col);
}

TEST(DenseTilesTest, ALayoutIsNoLargerThanItsBound) {
  const std::unique_ptr<Device> device = MakeCpuDevice(2);
  const HostCsr graph = Communities(3'001, 1'500);
  LayoutSource source(graph.view(), {}, *device);
  const HostDenseTiles tiles = FindDenseTiles(graph.view(), 64, source.pool());
  const auto layout = DenseTilesLayout::Upload(tiles, graph.view(), source);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_LE((*layout)->size_bytes(), DenseTilesLayout::BytesBound(graph.rows(), graph.row_ptr.back(), 64));
  EXPECT_EQ((*layout)->num_pieces(), static_cast<int64_t>(tiles.pieces.size()));
}

}  // namespace
}  // namespace vicinal::cuda

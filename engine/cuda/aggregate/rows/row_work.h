// SPDX-License-Identifier: Apache-2.0
// How the rows of an adjacency are distributed over the GPU's blocks and lanes, and in which order the edges of a row
// are added. The order is independent of the distribution.
//
// Order. Rows of up to kShortEdges edges are added edge by edge. Longer rows are cut, from their first edge on, into
// quads of kQuadEdges edges, and each quad into four pieces of kPieceEdges. Edge j of a piece goes to chain j mod 8;
// the chains of a piece are added as ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)), then the pieces of a quad in order,
// then the quads. The order depends on the row alone. So a row has the same bits in every graph, in every subset of
// rows and under every distribution of work: a group of lanes per row, a warp per row or quad, a block per piece.
//
// Terms. An item is what one worker sums: a row or a part of one. A row with several parts is split (in the literature:
// a carry-out row, of row splitting); its parts are quads or, on smaller graphs, pieces. A bundle is several short rows
// of one warp.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_WORK_H_
#define VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_WORK_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/device/views.h"
#include "engine/kernels/adjacency_layout.h"

namespace vicinal::cuda {

inline constexpr int kShortEdges = 32;
inline constexpr int kChains = 8;
inline constexpr int kPieceEdges = 256;
inline constexpr int kPiecesPerQuad = 4;
inline constexpr int kQuadEdges = kPieceEdges * kPiecesPerQuad;

// Edges per part of a split row: a quad, or a piece if quads are too few items to fill a GPU.
inline constexpr int64_t kManyEdges = int64_t{8} << 20;
inline int PartEdges(int64_t edges) { return edges >= kManyEdges ? kQuadEdges : kPieceEdges; }

// A graph with fewer edges is small: no distribution fills a GPU with it, and its time is that of the longest row plus
// each warp's fixed cost. Its short rows are not bundled.
inline constexpr int64_t kSmallGraphEdges = int64_t{1} << 17;

// Rows of more edges than this have blocks of their own, one per piece.
int BlockEdges(int64_t edges);

// Edges [begin, begin + count) of a row: the whole row, or a part of it.
struct alignas(16) RowItem {
  int32_t row = 0;     // ~p for part p of a split row
  int32_t count = -1;  // negative: no item
  int64_t begin = 0;
};

// A split row, whose parts are [first_part, first_part + parts).
struct alignas(16) SplitRow {
  int32_t row = 0;
  int32_t parts = 0;
  int64_t first_part = 0;
};

// The items of an adjacency, in the order in which they start: first the items that have a block each, then bundles of
// bundle_items items, which have a warp each. A bundle holds short rows, or a single item of more than kShortEdges
// edges. Parts of split rows come first, then whole rows. Whole rows are sorted by length, longest first, within
// windows of kSortWindow rows: concurrent rows end together, and rows close to each other, which share neighbours,
// still run at about the same time. The last window is larger (kLastWindowRows), so that short rows start last. Small
// graphs (kSmallGraphEdges) have a list of short rows in place of bundles.
struct RowWork {
  std::vector<RowItem> items;
  int64_t num_blocks = 0;  // items [0, num_blocks) have a block each
  int64_t num_short = 0;   // small graphs: the items after those, in place of bundles
  int64_t num_parts = 0;
  int bundle_items = 0;
  std::vector<SplitRow> splits;
  // The split row of each part, if the warp that stores a row's last part also adds them (split_parts.cuh). Empty if a
  // second kernel adds them.
  std::vector<SplitRow> split_of_part;

  int64_t num_bundles() const;
};
// Items that a bundle has room for. Wide bundles, for many rows of few edges, halve the number of times that a warp
// waits for the indices of its rows.
inline constexpr int kBundleItems = 8, kWideItems = 16;

// Bundles are wide up to this many edges per row, on average. The second value is for cheap rows: plain sums of narrow
// or 16-bit rows.
inline constexpr int kWideUpTo = 4, kWideUpToCheapRows = 16;
bool HasWideBundles(int64_t rows, int64_t edges, int wide_up_to);
inline constexpr int64_t kSortWindow = 4096;
// If at most this many rows and edges remain, about twice what a GPU works on at a time, they form one window.
// Otherwise the longest of the last kSortWindow rows would start last. One window for a whole larger graph is up to
// 60 % slower with well-ordered nodes, and up to 18 % with shuffled ones.
inline constexpr int64_t kLastWindowRows = int64_t{1} << 16, kLastWindowEdges = int64_t{1} << 21;

// `adjacency` is in host memory. `wide_up_to` is kWideUpTo or kWideUpToCheapRows.
RowWork MakeRowWork(const CsrView& adjacency, ThreadPool& pool, int wide_up_to = kWideUpTo);

// Upper bound of the number of parts for at most `edges` edges. Fewer edges may be cut into shorter parts.
inline int64_t MaxParts(int64_t edges) {
  return 2 * std::max(edges / kQuadEdges, std::min(edges, kManyEdges - 1) / kPieceEdges);
}

// RowWork in device memory.
class RowWorkLayout final : public AdjacencyLayout {
 public:
  static StatusOr<std::shared_ptr<const RowWorkLayout>> Upload(const RowWork& work, Device& device);
  // Upper bound of size_bytes() for an adjacency of `rows` rows and at most `edges` edges.
  static int64_t BytesBound(int64_t rows, int64_t edges);

  int64_t size_bytes() const override {
    return static_cast<int64_t>(items_.bytes() + splits_.bytes() + split_of_part_.bytes());
  }
  const RowItem* items() const { return items_.as<RowItem>(); }
  const SplitRow* splits() const { return splits_.as<SplitRow>(); }
  // Null if a second kernel adds the parts.
  const SplitRow* split_of_part() const { return num_parts_ > 0 ? split_of_part_.as<SplitRow>() : nullptr; }
  int64_t num_blocks() const { return num_blocks_; }
  bool wide() const { return bundle_items_ == kWideItems; }
  int64_t num_bundles() const { return num_bundles_; }
  int64_t num_short() const { return num_short_; }
  // True if the list has blocks and short rows in place of bundles.
  bool small() const { return num_blocks_ + num_short_ > 0; }
  int64_t num_splits() const { return num_splits_; }
  int64_t num_parts() const { return num_parts_; }  // of split_of_part()

 private:
  Buffer items_, splits_, split_of_part_;
  int64_t num_blocks_ = 0, num_bundles_ = 0, num_short_ = 0, num_splits_ = 0, num_parts_ = 0;
  int bundle_items_ = kBundleItems;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_WORK_H_

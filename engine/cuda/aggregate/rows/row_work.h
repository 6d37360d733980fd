// SPDX-License-Identifier: Apache-2.0
// How the rows of an adjacency are handed to blocks and lanes of the GPU, and in which order the edges of a row are
// added, whoever adds them.
//
// Order. Rows of up to kShortEdges edges are added one edge after the other. Longer ones are cut into quads of
// kQuadEdges edges from their own beginning, a quad into four pieces of kPieceEdges. Edge j of a piece goes to chain
// j mod 8; the chains of a piece are added as ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)), then the pieces of a quad one
// after the other, then the quads. All of it follows from the row alone, so a row has equal bits in every graph, every
// subset of rows and under every distribution of work: a group of lanes per row, a warp per row or quad, a block per
// piece.
//
// Words. An item is what one worker adds up at once: a row, or a part of one. A row that has several parts is split (in
// the literature: a carry-out row, of row splitting); its parts are quads, or pieces where there are fewer edges. A
// bundle is several short rows of one warp.
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

// Rows are cut where one warp would be too long at one: into quads on large adjacencies, into pieces where that would
// leave too few items to fill a GPU.
inline constexpr int64_t kManyEdges = int64_t{8} << 20;
inline int PartEdges(int64_t edges) { return edges >= kManyEdges ? kQuadEdges : kPieceEdges; }

// Below this number of edges a GPU is hardly filled however they are handed out: what counts is the longest row, and
// what each warp does once.
inline constexpr int64_t kSmallGraphEdges = int64_t{1} << 17;

// Rows of more edges than this have blocks of their own, one per piece.
int BlockEdges(int64_t edges);

// Edges [begin, begin + count) of a row: all of its, or a part of a longer one.
struct alignas(16) RowItem {
  int32_t row = 0;     // part p of a split row: ~p
  int32_t count = -1;  // below 0: nothing
  int64_t begin = 0;
};

// A row of more than one part, which are parts [first_part, first_part + parts).
struct alignas(16) SplitRow {
  int32_t row = 0;
  int32_t parts = 0;
  int64_t first_part = 0;
};

// Items of an adjacency, in the order in which they are started: those that have a block each, then bundles of
// bundle_items items, which have a warp each: one item of more than kShortEdges edges and nothing else, or short rows.
// Parts of split rows come first, then whole rows, longest first within windows of kSortWindow rows, so that what runs
// side by side ends together while rows that lie close, and so share neighbours, still run close. The last window is
// larger (kTailRows), so that what is started last is short. Where there are few edges, short rows are not put into
// bundles, but follow one another.
struct RowWork {
  std::vector<RowItem> items;
  int64_t num_blocks = 0;  // items [0, num_blocks) have a block each
  int64_t num_short = 0;   // where there are few edges: items behind those, in place of bundles
  int64_t num_parts = 0;
  int bundle_items = 0;
  std::vector<SplitRow> splits;
  // Of every part, where whoever has the last one adds them; else another kernel does, and this is empty.
  std::vector<SplitRow> split_of_part;

  int64_t num_bundles() const;
};
// Bundles have room for kBundleItems items, where there are many rows of few edges for kWideItems (wide bundles): what
// a warp waits for before it has its rows' indices is then waited for half as often.
inline constexpr int kBundleItems = 8, kWideItems = 16;

// Mean numbers of edges up to which bundles are wide: what is faster by them depends on the sum.
inline constexpr int kHardlyAnyEdges = 4, kSomeEdges = 16;
bool HasWideBundles(int64_t rows, int64_t edges, int wide_up_to);
inline constexpr int64_t kSortWindow = 4096;
// What is left is one window when it is no more than this, about twice what a GPU works on at a time: without it, the
// longest rows of the last kSortWindow rows are started last of all. All of a larger graph in one window is up to 60 %
// slower in a good order of nodes, and up to 18 % in a shuffled one.
inline constexpr int64_t kTailRows = int64_t{1} << 16, kTailEdges = int64_t{1} << 21;

// `adjacency` in host memory. wide_up_to: kHardlyAnyEdges or kSomeEdges.
RowWork MakeRowWork(const CsrView& adjacency, ThreadPool& pool, int wide_up_to = kHardlyAnyEdges);

// Upper bound of the parts that rows with so many edges in all, or fewer, are split into: fewer may be cut shorter.
inline int64_t MaxParts(int64_t edges) {
  return 2 * std::max(edges / kQuadEdges, std::min(edges, kManyEdges - 1) / kPieceEdges);
}

// RowWork in device memory.
class RowWorkLayout final : public AdjacencyLayout {
 public:
  static StatusOr<std::shared_ptr<const RowWorkLayout>> Upload(const RowWork& work, Device& device);
  // Of an adjacency of so many rows, and so many edges or fewer.
  static int64_t BytesBound(int64_t rows, int64_t edges);

  int64_t size_bytes() const override {
    return static_cast<int64_t>(items_.bytes() + splits_.bytes() + split_of_part_.bytes());
  }
  const RowItem* items() const { return items_.as<RowItem>(); }
  const SplitRow* splits() const { return splits_.as<SplitRow>(); }
  // Null: there is none.
  const SplitRow* split_of_part() const { return num_parts_ > 0 ? split_of_part_.as<SplitRow>() : nullptr; }
  int64_t num_blocks() const { return num_blocks_; }
  bool wide() const { return bundle_items_ == kWideItems; }
  int64_t num_bundles() const { return num_bundles_; }
  int64_t num_short() const { return num_short_; }
  // Whether there are blocks and short rows in place of bundles.
  bool small() const { return num_blocks_ + num_short_ > 0; }
  int64_t num_splits() const { return num_splits_; }
  int64_t num_parts() const { return num_parts_; }  // that split_of_part() has

 private:
  Buffer items_, splits_, split_of_part_;
  int64_t num_blocks_ = 0, num_bundles_ = 0, num_short_ = 0, num_splits_ = 0, num_parts_ = 0;
  int bundle_items_ = kBundleItems;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_WORK_H_

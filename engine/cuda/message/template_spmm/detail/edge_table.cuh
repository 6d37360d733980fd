// SPDX-License-Identifier: Apache-2.0
// The work of a block of edge_rows.cu: adjacent rows, and pieces of long ones (row_pieces.h), with their edges.
//
// Rows are shared out by their edges and one more each, so that blocks have equal work in any order of rows: a row's
// key is the number of edges and rows before it. A block has the rows, and the pieces of long rows, whose keys are in
// its range. Its edges, counted over all of these, are shared out among its warps. A row may be cut between warps where
// a chunk of its edges begins (kChunkEdges); totals of such chunks are joined in order, as everywhere, so that bits do
// not depend on the cuts.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_EDGE_TABLE_CUH_
#define VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_EDGE_TABLE_CUH_

#include <cstdint>

#include "engine/cuda/common/edge_features.cuh"
#include "engine/cuda/common/row_pieces.cuh"
#include "engine/cuda/message/template_spmm/template_spmm.h"

namespace vicinal::cuda {

inline constexpr int kRowThreads = 128, kRowWarps = kRowThreads / 32;
inline constexpr int kChunkEdges = 16;  // of a row or piece, counted from its first one, that are added one by one
inline constexpr int kMaxKeys = kRowThreads - 1;  // of a block: a thread for each row, and one for the row before
inline constexpr int kMaxEntries = kRowThreads + kMaxKeys / static_cast<int>(kFeaturedUnit) + 1;
inline constexpr int kChunkSlots = 16;  // for totals of chunks of rows that are cut between warps

// Rows and pieces, in order.
struct EdgeTable {
  int entries;
  int stop[kMaxEntries];  // edges of the block up to the end of each
  int32_t row[kMaxEntries];
  int32_t piece[kMaxEntries];           // its number; -1: a whole row
  int64_t shift[kMaxEntries];           // from an edge's number in the block to that in the adjacency
  FeaturesOfRow features[kMaxEntries];  // by an edge's number in the block
  int2 warp_sums[kRowWarps];

  __device__ int begin(int entry) const { return entry == 0 ? 0 : stop[entry - 1]; }
  // The entry of an edge that is not before entry `low`.
  __device__ int EntryOf(int edge, int low) const {
    int high = entries;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (stop[middle - 1] <= edge ? low : high) = middle;
    }
    return low;
  }
};

// The first row whose key is not below `key`, for each half of a warp.
__device__ inline int FirstRowAt(const CsrView& adjacency, int64_t key) {
  constexpr int kHalf = 16;
  const int lane = threadIdx.x % kHalf;
  int low = 0, high = static_cast<int>(adjacency.rows);
  while (__any_sync(kWholeWarp, low < high)) {
    const int step = (high - low) / (kHalf + 1) + 1;  // all lanes below: the result may be `high`
    const int at = low + (lane + 1) * step - 1;
    const bool below = low < high && at < high && __ldg(adjacency.row_ptr + at) + at < key;
    const int passed = __popc(__ballot_sync(kWholeWarp, below) & GroupMask<kHalf>());
    if (low >= high) continue;
    high = min(high, low + (passed + 1) * step - 1);
    low += passed * step;
  }
  return low;
}

// What one row gives to a table: itself, or the pieces whose keys are in the block's range.
struct RowPart {
  int32_t row = 0;
  int first_piece = -1;  // of a long row
  int count = 0;         // entries
  int edges = 0;
  int64_t begin = 0, length = 0;  // the row's first edge; of its pieces
  int64_t pieces = 1, row_edges = 0;

  __device__ int EdgesOf(int i) const {
    if (first_piece < 0) return static_cast<int>(row_edges);
    const int64_t number = first_piece + i;
    return static_cast<int>(number < pieces - 1 ? length : row_edges - number * length);
  }
};

// before: the row begins before the block's range.
__device__ inline RowPart PartOf(const CsrView& adjacency, bool cut, int32_t row, bool before, int64_t key,
                                 int64_t keys) {
  RowPart part;
  part.row = row;
  part.begin = __ldg(adjacency.row_ptr + row);
  part.row_edges = __ldg(adjacency.row_ptr + row + 1) - part.begin;
  if (!cut || !IsLongRow(part.row_edges, kFeaturedUnit)) {
    part.count = before ? 0 : 1;
  } else {
    part.length = PieceLength(part.row_edges, kFeaturedUnit);
    part.pieces = max(part.row_edges / part.length, int64_t{1});
    const int64_t from = key - (part.begin + row);
    const int64_t first = from <= 0 ? 0 : (from + part.length - 1) / part.length;
    const int64_t last = min((from + keys + part.length - 1) / part.length, part.pieces);
    part.first_piece = static_cast<int>(first);
    part.count = static_cast<int>(max(last - first, int64_t{0}));
  }
  for (int i = 0; i < part.count; ++i) part.edges += part.EdgesOf(i);
  return part;
}

// Entries and edges of the threads before this one; of the whole block in `total`.
__device__ inline int2 SumBefore(int2* warp_sums, int entries, int edges, int2* total) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int2 sum = make_int2(entries, edges);
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int x = __shfl_up_sync(kWholeWarp, sum.x, step), y = __shfl_up_sync(kWholeWarp, sum.y, step);
    if (lane >= step) sum.x += x, sum.y += y;
  }
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  int2 before = make_int2(sum.x - entries, sum.y - edges);
  *total = make_int2(0, 0);
#pragma unroll
  for (int w = 0; w < kRowWarps; ++w) {
    const int2 all = warp_sums[w];
    if (w < warp) before.x += all.x, before.y += all.y;
    total->x += all.x, total->y += all.y;
  }
  return before;
}

// The rows and pieces whose keys are in [key, key + keys). Returns the number of their edges, with the block in step.
// cut: long rows are cut.
__device__ inline int MakeTable(const CsrView& adjacency, const EdgeFeaturesView& edge, bool cut, int64_t key, int keys,
                                EdgeTable* table) {
  const int lane = threadIdx.x % 32;
  const int border = FirstRowAt(adjacency, key + (lane < 16 ? 0 : keys));
  const int first = __shfl_sync(kWholeWarp, border, 0), last = __shfl_sync(kWholeWarp, border, 16);
  const int row = first - 1 + static_cast<int>(threadIdx.x);
  RowPart part;
  if (row >= 0 && row < last) part = PartOf(adjacency, cut, row, threadIdx.x == 0, key, keys);
  int2 total;
  const int2 before = SumBefore(table->warp_sums, part.count, part.edges, &total);
  int at = before.y;
  for (int i = 0; i < part.count; ++i) {
    const int entry = before.x + i;
    const int64_t from = part.first_piece < 0 ? 0 : (part.first_piece + i) * part.length;
    table->row[entry] = part.row;
    table->piece[entry] = part.first_piece < 0 ? -1 : part.first_piece + i;
    table->shift[entry] = part.begin + from - at;
    if (edge.width > 0) table->features[entry] = FindFeatures<1>(edge, adjacency, part.row, from - at);
    at += part.EdgesOf(i);
    table->stop[entry] = at;
  }
  if (threadIdx.x == 0) table->entries = total.x;
  __syncthreads();
  return total.y;
}

// Where the edges of warp `warp` begin, with all entries from `entry` on that no warp before it finishes.
struct WarpCut {
  int entry = 0, edge = 0;
  int slot = -1;  // of the totals of its entry's chunks, if that is cut here

  __device__ static WarpCut At(const EdgeTable& table, int edges, int warp) {
    WarpCut cut;
    if (warp == 0) return cut;
    if (warp == kRowWarps) {
      cut.entry = table.entries, cut.edge = edges;
      return cut;
    }
    const int aim = static_cast<int>(int64_t{edges} * warp / kRowWarps);
    if (edges > 0) cut.entry = table.EntryOf(aim, 0);
    const int begin = table.begin(cut.entry);
    cut.edge = begin + (aim - begin) / kChunkEdges * kChunkEdges;
    return cut;
  }
};

// The cuts of all warps: number i is in lane i. Entries whose chunks would need more slots than there are stay whole.
__device__ inline WarpCut FindCuts(const EdgeTable& table, int edges) {
  const int lane = threadIdx.x % 32;
  WarpCut mine = WarpCut::At(table, edges, min(lane, kRowWarps));
  const int begin = mine.entry < table.entries ? table.begin(mine.entry) : mine.edge;
  const int chunks = mine.edge > begin ? (table.stop[mine.entry] - begin + kChunkEdges - 1) / kChunkEdges : 0;
  int used = 0, last_entry = -1, last_slot = -1;
#pragma unroll
  for (int i = 1; i < kRowWarps; ++i) {
    const int entry = __shfl_sync(kWholeWarp, mine.entry, i), need = __shfl_sync(kWholeWarp, chunks, i);
    int slot = -1;
    if (need > 0) {
      slot = entry == last_entry ? last_slot : used + need <= kChunkSlots ? used : -1;
      if (entry != last_entry && slot >= 0) used += need;
      last_entry = entry, last_slot = slot;
    }
    if (lane == i) mine.slot = slot;
  }
  if (mine.slot < 0 && lane < kRowWarps) mine.edge = begin;
  return mine;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_TEMPLATE_SPMM_DETAIL_EDGE_TABLE_CUH_

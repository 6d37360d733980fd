// SPDX-License-Identifier: Apache-2.0
// fused_rows for small graphs, with GAT's scores. The time of such a graph is a sequence of memory latencies, so this
// kernel has fewer of them. A warp has one row and one tile of columns. It holds the row's source ids, and loads the
// sources' scores and rows at the same time; scores, shares and ids are shuffled between lanes, not passed through
// shared memory. What remains is the longest row. So the warps of a block share a row of more than kAloneEdges edges,
// one chain of additions (fused_rows.cuh) each, and the 32 rows of a batch are in flight at once. Pieces of cut rows
// have blocks of their own, before those of the rows, and are found as in fused_rows.cuh. Large graphs with about 8
// edges per row also gain if rows are wide or have several heads, so the tuner may choose it for them.
//
// The order of evaluation, and so the bits, are those of fused_rows.cuh. The kernel may start before the kernel before
// it has ended (overlap.cuh), and loads row offsets and source ids meanwhile.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_FUSED_SMALL_ROWS_CUH_
#define VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_FUSED_SMALL_ROWS_CUH_

#include <type_traits>

#include "engine/cuda/attention/fused_rows/detail/fused_rows.cuh"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/common/overlap.cuh"

namespace vicinal::cuda {

inline constexpr int kSmallWarps = kAttentionThreads / 32;
inline constexpr int kAloneEdges = 16;  // the most edges of a row that a single warp processes

// The work of a lane.
template <class Layout, int kHeads>
struct SmallTile {
  int lane;    // of the warp
  int group;   // of the row's edges
  int column;  // first of four; that of another lane unless `has`
  bool has;
  const float* values;  // from that column on
  uint32_t row_packs;   // from row to row
  int head;             // of the columns, counted from the tile's first
  int scored;           // the head whose scores it computes

  __device__ explicit SmallTile(const AttentionParams& params) {
    lane = static_cast<int>(threadIdx.x) % 32;
    group = lane / Layout::kLanes;
    const int begin = static_cast<int>(blockIdx.y) * Layout::kTile,
              columns = params.work.heads * params.work.head_width;
    column = begin + lane % Layout::kLanes * Layout::kVec;
    has = column < columns;
    if (!has) column = begin;
    values = params.source.value.data + column;
    // Keeps the compiler from computing the address again for each row.
    asm("" : "+l"(values));
    row_packs = params.source.value.stride_bytes / (Layout::kVec * sizeof(float));
    head = 0;
    scored = params.work.heads == 1 ? 0 : begin / params.work.head_width;
    if constexpr (kHeads > 1) {
      head = column / params.work.head_width - scored;
      scored = min(scored + lane % kHeads, params.work.heads - 1);
    }
  }
};

// The largest x of all lanes that score the same head, returned in each of them.
template <int kHeads>
__device__ inline float LargestOfHead(float x) {
  if constexpr (kHeads == 1) {
    return LargestOf<32>(x);
  } else {
#pragma unroll
    for (int distance = 16; distance >= kHeads; distance /= 2) x = fmaxf(x, __shfl_xor_sync(kWholeWarp, x, distance));
    return x;
  }
}

// Sums over edges of a row or piece for the lane's chains, which are evenly spaced from `first_chain` on.
//
// Several rows are loaded without a branch in between, after which the compiler would wait for them. Missing edges load
// the last edge's row, with a share of 0. The ids are used once before the first row is loaded: a warp has six
// scoreboards, and if loads of ids may still be pending on the scoreboard of the rows, the warp waits for each row
// before it loads the next.
template <class Layout, int kHeads, class Sums>
struct SmallRow {
  static constexpr int kHeld = std::extent_v<decltype(Sums::total)>, kApart = kAttentionChains / kHeld;
  static constexpr int kRoundShares = kAttentionChains * kHeads;  // a round is an edge for each chain
  static_assert(32 % kRoundShares == 0);
  template <int kRounds>
  using Rows = Pack<Layout::kVec>[kRounds * kHeld];

  const AttentionParams& params;
  const SmallTile<Layout, kHeads>& tile;
  int first_chain;
  float target;    // score_dst of the row and the head that the lane scores
  int32_t source;  // of edge `lane` of the next edges, or of the last one if there are fewer
  float shift;     // of the head that the lane scores
  Sums sums;

  template <int kRounds>
  __device__ void LoadRows(int first_round, uint32_t offset, Rows<kRounds>& x) const {
#pragma unroll
    for (int i = 0; i < kRounds * kHeld; ++i) {
      const int edge = (first_round + i / kHeld) * kAttentionChains + i % kHeld * kApart + first_chain;
      const uint64_t packs = __shfl_sync(kWholeWarp, offset, edge);
      x[i] = LoadPlain<Layout::kVec>(tile.values + packs * Layout::kVec);
    }
  }

  template <int kRounds, int kSlots>
  __device__ void AddRows(int first_round, const float (&share)[kSlots], const Rows<kRounds>& x) {
#pragma unroll
    for (int i = 0; i < kRounds * kHeld; ++i) {
      const int first = (first_round + i / kHeld) * kRoundShares, held = i % kHeld;
      const int at = first % 32 + (held * kApart + first_chain) * kHeads + tile.head;
      sums.Add(held, 0, __shfl_sync(kWholeWarp, share[first / 32], at), x[i]);
    }
  }

  // Turns scores into shares relative to the head's new shift.
  template <int kSlots>
  __device__ void Share(int edges, float (&score)[kSlots]) {
    float whole[kSlots], largest = shift;
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const Exponential exponential = ExponentialOf(score[slot], target, params.source.factors);
      const bool is_there = slot * 32 + tile.lane < edges * kHeads;
      score[slot] = is_there ? exponential.share : 0.0f;
      whole[slot] = is_there ? exponential.whole : kNoScore;
      largest = fmaxf(largest, whole[slot]);
    }
    shift = LargestOfHead<kHeads>(largest);
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) score[slot] *= PowerOfTwo(whole[slot] - shift);
  }

  // Adds `edges` edges, in at most kRounds rounds, with the rows of kAtOnce rounds in flight at once. Calls
  // fetch_next() when these loads have been issued.
  template <int kAtOnce, int kRounds, class FetchNext>
  __device__ void Add(int edges, bool first, const FetchNext& fetch_next) {
    static_assert(kRounds % kAtOnce == 0);
    const uint32_t offset = static_cast<uint32_t>(source) * tile.row_packs;
    constexpr int kSlots = (kRounds * kRoundShares + 31) / 32;  // a lane per edge and head, edge-major
    float share[kSlots];
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const int32_t from = kHeads == 1 ? source : __shfl_sync(kWholeWarp, source, (slot * 32 + tile.lane) / kHeads);
      share[slot] = params.source.scored.row(from)[tile.scored];
    }
    Rows<kAtOnce> x;
    LoadRows<kAtOnce>(0, offset, x);
    fetch_next();
    const float before = shift;
    Share(edges, share);
    if (!first) sums.Scale(0, __shfl_sync(kWholeWarp, PowerOfTwo(before - shift), tile.head));
    AddRows<kAtOnce>(0, share, x);
    if constexpr (kAtOnce < kRounds) {
#pragma unroll
      for (int round = kAtOnce; round < kRounds; round += kAtOnce) {
        if (round * kAttentionChains >= edges) break;
        LoadRows<kAtOnce>(round, offset, x);
        AddRows<kAtOnce>(round, share, x);
      }
    }
  }
};

// Stores the results of a row of which the lane has the sums.
template <class Layout, int kHeads>
__device__ inline void StoreSmall(const AttentionParams& params, const SmallTile<Layout, kHeads>& tile, int64_t row,
                                  float total, const Pack<4>& sum) {
  if (!tile.has || tile.group > 0) return;
  // Inlined, unlike FinishPack, as there are enough registers here.
  const int last = params.work.heads * params.work.head_width - 1;
  StorePackAttended(params, row, tile.column, total, sum, [&](const Pack<4>& out) {
    return WithEpilogue<4>(params.out.epilogue, row, tile.column, last, out);
  });
}

// Sums all chains of a row in one warp. `source` and `target` are as in SmallRow.
template <class Layout, int kHeads>
__device__ inline void AttendAlone(const AttentionParams& params, const SmallTile<Layout, kHeads>& tile, int64_t row,
                                   int count, int32_t source, float target) {
  SmallRow<Layout, kHeads, RowSums<Layout>> edges{params, tile, tile.group, target, source, kNoScore};
  edges.sums.Clear();
  constexpr int kRounds = kAloneEdges / kAttentionChains, kFew = Layout::kGroups == 1 ? 1 : 2;
  constexpr int kMany = Layout::kGroups == 1 ? 2 : kRounds;
  const auto nothing = [] {};
  if (count > kFew * kAttentionChains) {
    edges.template Add<kMany, kRounds>(count, true, nothing);
  } else if (count > 0) {
    edges.template Add<kFew, kFew>(count, true, nothing);
  }
  RowSums<Layout>& sums = edges.sums;
  sums.MergeChains(kWholeWarp);
  StoreSmall(params, tile, row, sums.total[0][0], sums.sum[0][0]);
}

// Shared memory through which the warps of a block that share a row merge their chains.
template <class Layout>
struct TeamMemory {
  float4 sum[kAttentionChains][Layout::kLanes];
  float total[kAttentionChains][Layout::kLanes];
  float shift[Layout::kLanes];  // of the columns' head
  int row[kSmallWarps];         // of cells
};

// Sums edges [begin, begin + count) of the adjacency with a whole block; all lanes of its first warp get the sums.
// REQUIRES: a __syncthreads() between calls.
template <class Layout, int kHeads>
__device__ inline void AttendTogether(const AttentionParams& params, const SmallTile<Layout, kHeads>& tile,
                                      TeamMemory<Layout>& team, int64_t row, int64_t begin, int count, float* total,
                                      Pack<Layout::kVec>* sum) {
  using OneChain =
      RowSums<AttentionLayout<AttentionKind::kGat, Layout::kVec, 32 / kAttentionChains, kAttentionChains, 1>>;
  const int chain = static_cast<int>(threadIdx.x) / 32 * Layout::kGroups + tile.group;
  if (chain < kAttentionChains) {
    const int32_t* const col = params.work.adjacency.col + begin;
    const float target = params.source.score_dst.data[row * params.source.score_dst.stride + tile.scored];
    SmallRow<Layout, kHeads, OneChain> edges{params, tile, chain, target, col[min(tile.lane, count - 1)], kNoScore};
    edges.sums.Clear();
    constexpr int kRounds = kAttentionBatch / kAttentionChains, kAtOnce = kHeads == 1 ? kRounds : kRounds / 2;
#pragma unroll 1
    for (int done = 0; done < count; done += kAttentionBatch) {
      int32_t next = 0;
      edges.template Add<kAtOnce, kRounds>(min(count - done, kAttentionBatch), done == 0, [&] {
        next = __ldg(col + min(done + kAttentionBatch + tile.lane, count - 1));
      });
      edges.source = next;
    }
    const OneChain& sums = edges.sums;
    const int place = tile.lane % Layout::kLanes;
    const Pack<Layout::kVec>& mine = sums.sum[0][0];
    team.sum[chain][place] = make_float4(mine.v[0], mine.v[1], mine.v[2], mine.v[3]);
    team.total[chain][place] = sums.total[0][0];
    const float shift = __shfl_sync(kWholeWarp, edges.shift, tile.head);
    if (chain == 0) team.shift[place] = shift;
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  const auto merged = [&](auto&& of_chain) {
    return __fadd_rn(__fadd_rn(of_chain(0), of_chain(2)), __fadd_rn(of_chain(1), of_chain(3)));
  };
  const int place = tile.lane % Layout::kLanes;
  *total = merged([&](int c) { return team.total[c][place]; });
  sum->v[0] = merged([&](int c) { return team.sum[c][place].x; });
  sum->v[1] = merged([&](int c) { return team.sum[c][place].y; });
  sum->v[2] = merged([&](int c) { return team.sum[c][place].z; });
  sum->v[3] = merged([&](int c) { return team.sum[c][place].w; });
}

// Stores a piece's sums. If it was the row's last missing piece, adds all of them and stores the row's results. To be
// called by the first warp of a block.
template <class Layout, int kHeads>
__device__ inline void FinishPiece(const AttentionParams& params, const SmallTile<Layout, kHeads>& tile,
                                   const RowPiece& piece, float shift, float total, const Pack<Layout::kVec>& sum) {
  if (tile.has && tile.group == 0) {
    float* const partial = params.parts.partials + piece.cell * params.parts.partial_stride;
    StorePack<Layout::kVec>(partial + tile.column, sum);
    // Stored by all lanes of the head and all tiles that overlap it: they hold the same value.
    const int head = kHeads == 1 ? tile.scored : tile.column / params.work.head_width;
    float* const of_head = partial + params.parts.sum_floats + 2 * head;
    of_head[0] = shift;
    of_head[1] = total;
  }
  int* const ticket = params.parts.tickets + blockIdx.y * params.parts.cells + piece.first_cell;
  if (!ArrivesLastKeepingL1(ticket, piece.pieces, kWholeWarp, tile.lane == 0)) return;
  const TileWork<Layout> work(params);
  RowSums<Layout> sums;
  MergePieces<Layout>(params, work, piece, sums);
  sums.MergeChains(kWholeWarp);
  if (work.group == 0) StoreAttended<Layout>(params, work, piece.row, sums);
}

// Each warp looks up one cell; then the block sums the pieces found, one after the other. Not inlined, as its registers
// would count for the whole kernel.
template <class Layout, int kHeads>
__device__ __noinline__ void AttendSmallPieces(const AttentionParams& params, TeamMemory<Layout>& team) {
  const SmallTile<Layout, kHeads> tile(params);
  const CsrView& adjacency = params.work.adjacency;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t cell = int64_t{blockIdx.x} * kSmallWarps + warp;
  int64_t row = -1;
  if (cell < params.parts.cells) row = RowOfEdge<32>(adjacency.row_ptr, adjacency.rows, cell * kAttentionUnit);
  if (tile.lane == 0) team.row[warp] = static_cast<int>(row);
  AwaitPreviousKernels();
#pragma unroll 1
  for (int i = 0; i < kSmallWarps; ++i) {
    __syncthreads();
    if (team.row[i] < 0) return;
    int number = i;
    const auto find = [&] {
      return PieceAt(adjacency.row_ptr, kAttentionUnit, int64_t{blockIdx.x} * kSmallWarps + number, team.row[i]);
    };
    const RowPiece piece = find();
    if (piece.row < 0) continue;
    float total;
    Pack<Layout::kVec> sum;
    AttendTogether<Layout, kHeads>(params, tile, team, piece.row, piece.begin,
                                   static_cast<int>(piece.end - piece.begin), &total, &sum);
    if (warp > 0) continue;
    // Looked up again, and hidden from the compiler: keeping it would take registers from the loop above.
    asm volatile("" : "+r"(number));
    FinishPiece<Layout, kHeads>(params, tile, find(), team.shift[tile.lane % Layout::kLanes], total, sum);
  }
}

template <class Layout, int kHeads>
__global__ void __launch_bounds__(kAttentionThreads, (kHeads == 2 ? 7 : 6))
    SmallAttention(const __grid_constant__ AttentionParams params) {
  TriggerNextLaunch();
  __shared__ TeamMemory<Layout> team;
  const int cell_blocks = static_cast<int>((params.parts.cells + kSmallWarps - 1) / kSmallWarps);
  if (static_cast<int>(blockIdx.x) < cell_blocks) {
    AttendSmallPieces<Layout, kHeads>(params, team);
    return;
  }
  const SmallTile<Layout, kHeads> tile(params);
  const CsrView& adjacency = params.work.adjacency;
  const int rows = static_cast<int>(adjacency.rows), warp = static_cast<int>(threadIdx.x) / 32;
  const int first = (static_cast<int>(blockIdx.x) - cell_blocks) * kSmallWarps, row = first + warp;
  // Lane l holds the first edge of the block's row l.
  const int begin_of = static_cast<int>(adjacency.row_ptr[min(first + min(tile.lane, kSmallWarps), rows)]);
  const int count_of = __shfl_down_sync(kWholeWarp, begin_of, 1) - begin_of;
  unsigned together = __ballot_sync(
      kWholeWarp, tile.lane < kSmallWarps && count_of > kAloneEdges && !IsLongRow(count_of, kAttentionUnit));
  const int begin = __shfl_sync(kWholeWarp, begin_of, warp), count = __shfl_sync(kWholeWarp, count_of, warp);
  const bool alone = row < rows && count <= kAloneEdges;
  int32_t source = 0;
  if (alone && count > 0) source = adjacency.col[begin + min(tile.lane, count - 1)];
  AwaitPreviousKernels();
  if (alone) {
    const float target = params.source.score_dst.data[row * params.source.score_dst.stride + tile.scored];
    AttendAlone<Layout, kHeads>(params, tile, row, count, source, target);
  }
#pragma unroll 1
  for (; together != 0; together &= together - 1) {
    const int i = __ffs(static_cast<int>(together)) - 1;
    float total;
    Pack<Layout::kVec> sum;
    AttendTogether<Layout, kHeads>(params, tile, team, first + i, __shfl_sync(kWholeWarp, begin_of, i),
                                   __shfl_sync(kWholeWarp, count_of, i), &total, &sum);
    if (warp == 0) StoreSmall(params, tile, first + i, total, sum);
    __syncthreads();
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_FUSED_SMALL_ROWS_CUH_

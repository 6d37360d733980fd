// SPDX-License-Identifier: Apache-2.0
// fused_rows: attention with scores, softmax and weighted sum in one pass over a row's edges. Nothing of the size of
// the edges is stored.
//
// Idea. A few lanes process a row (or a piece of a long one) and a tile of columns, 32 edges at a time. First they
// compute the scores of the batch, one lane per edge and head (attention_scores.cuh), so that each exponential is
// computed once and not by every lane. Scores go through shared memory, where the shares of four edges are 16 bytes.
// Then they gather the rows: a lane holds packs of columns and loads the packs of four edges before it uses the first.
// If a row needs few lanes, several groups of lanes take its edges in turn, or the lanes of a warp take several rows.
// Source ids are read once, by adjacent lanes, one batch ahead. Sums are relative to a power of two
// (softmax_state.cuh), which is raised when a batch has a higher score: one test per batch, no second pass over the
// edges.
//
// Order of evaluation: edge j of a row goes to chain j mod 4; chains are added (0, 2), (1, 3), then both; pieces of
// long rows are added as if they were edges. The bits are equal for all shapes, in every run and in every subset of
// rows; there are no float atomics. Moves edges * (4 + 4 * heads * head_width + 4 * heads) bytes of gather and the
// stores. Dot products also gather keys, and GATv2 gathers its values twice, the second time mostly from the L1 cache.
// Averaged heads are first stored one by one; a second small kernel averages them. On small graphs, or if configured,
// fused_small_rows.cuh computes the same with another distribution.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_FUSED_ROWS_CUH_
#define VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_FUSED_ROWS_CUH_

#include <iterator>

#include "engine/cuda/attention/fused_rows/detail/attention_features.cuh"
#include "engine/cuda/attention/fused_rows/detail/attention_scores.cuh"
#include "engine/cuda/common/async_copy.cuh"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/common/warp_extremes.cuh"

namespace vicinal::cuda {

// Sums of shares, and of shares times rows.
template <class Layout>
struct RowSums {
  float total[Layout::kHeld][Layout::kPacks];
  Pack<Layout::kVec> sum[Layout::kHeld][Layout::kPacks];

  __device__ void Clear() {
#pragma unroll
    for (int h = 0; h < Layout::kHeld; ++h) {
#pragma unroll
      for (int p = 0; p < Layout::kPacks; ++p) {
        total[h][p] = 0.0f;
        sum[h][p] = Pack<Layout::kVec>::Filled(0.0f);
      }
    }
  }
  __device__ void Scale(int pack, float factor) {
#pragma unroll
    for (int h = 0; h < Layout::kHeld; ++h) {
      total[h][pack] *= factor;
#pragma unroll
      for (int v = 0; v < Layout::kVec; ++v) sum[h][pack].v[v] *= factor;
    }
  }
  __device__ void Add(int held, int pack, float share, const Pack<Layout::kVec>& x) {
    total[held][pack] += share;
#pragma unroll
    for (int v = 0; v < Layout::kVec; ++v) sum[held][pack].v[v] = fmaf(share, x.v[v], sum[held][pack].v[v]);
  }
  // Adds all chains, into chain 0 of every lane that has the column.
  __device__ void MergeChains(unsigned mask) {
#pragma unroll
    for (int p = 0; p < Layout::kPacks; ++p) {
      total[0][p] = Merge([&](int h) { return total[h][p]; }, mask);
#pragma unroll
      for (int v = 0; v < Layout::kVec; ++v) sum[0][p].v[v] = Merge([&](int h) { return sum[h][p].v[v]; }, mask);
    }
  }

 private:
  template <class Chain>
  __device__ static float Merge(const Chain& chain, unsigned mask) {
    if constexpr (Layout::kGroups == 1) {
      return __fadd_rn(__fadd_rn(chain(0), chain(2)), __fadd_rn(chain(1), chain(3)));
    } else if constexpr (Layout::kGroups == 2) {
      const float mine = __fadd_rn(chain(0), chain(1));
      return __fadd_rn(mine, __shfl_xor_sync(mask, mine, Layout::kLanes));
    } else {
      const float mine = chain(0);
      const float even_or_odd = __fadd_rn(mine, __shfl_xor_sync(mask, mine, 2 * Layout::kLanes));
      return __fadd_rn(even_or_odd, __shfl_xor_sync(mask, even_or_odd, Layout::kLanes));
    }
  }
};

// Four edges of this lane's group, from the batch's edge `first` on. Missing edges have a share of 0.
template <class Layout>
__device__ inline void GatherStep(const AttentionParams& params, const TileWork<Layout>& work,
                                  const GroupMemory& memory, int first, RowSums<Layout>& sums) {
  const int at = work.group * (kAttentionBatch / Layout::kGroups) + first / Layout::kGroups;
  const int4 four = *reinterpret_cast<const int4*>(memory.columns + at);
  const int32_t source[4] = {four.x, four.y, four.z, four.w};
  Pack<Layout::kVec> x[4][Layout::kPacks];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* row = params.source.value.row(source[i]);
#pragma unroll
    for (int p = 0; p < Layout::kPacks; ++p) x[i][p] = LoadReadOnly<Layout::kVec>(row + work.column[p]);
  }
#pragma unroll
  for (int p = 0; p < Layout::kPacks; ++p) {
    const float4 shares = *reinterpret_cast<const float4*>(memory.shares + work.head[p] * kShareStride + at);
    const float share[4] = {shares.x, shares.y, shares.z, shares.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) sums.Add(i % Layout::kHeld, p, share[i], x[i][p]);
  }
}

// The scores of a batch, in memory.shares. To be called by whole warps. `source`: of this lane's edges; the batch's
// sources are also in memory.columns. `row_features`: of the edges from the first batch's on; `done`: edges before.
template <class Layout>
__device__ inline void ScoreBatch(const AttentionParams& params, const TileWork<Layout>& work,
                                  const GroupMemory& memory, const FeaturesOfRow& row_features, int64_t row, int done,
                                  int edges, int most_edges, const int32_t (&source)[Layout::kSlots]) {
  if constexpr (Layout::kFeatured) {
    const FeatureMemory features(params, memory);
    NoteFeatures<Layout>(params, work, features, row_features, done, edges);
    __syncwarp();
    if constexpr (Layout::kKind == AttentionKind::kGatV2) {
      MultiplyScores<Layout>(params, work, FeaturedSources<Layout>(params, memory, features), row, edges, most_edges);
      return;
    }
    if (Layout::kKind == AttentionKind::kDot && done == 0) {
      TurnQuery<Layout>(params, work, memory, features, row, edges);
    }
  }
  if constexpr (Layout::kKind == AttentionKind::kGat) {
    if (work.heads == 1) {
      GatherScoresOfOneHead<Layout>(params, work, memory, source, edges);
    } else {
      __syncwarp();
      work.score_packs ? GatherScores<Layout, 4>(params, work, memory, edges, most_edges)
                       : GatherScores<Layout, 1>(params, work, memory, edges, most_edges);
    }
  } else {
    __syncwarp();
    MultiplyScores<Layout>(params, work, ScoredSources<Layout>{params, memory}, row, edges, most_edges);
  }
  if constexpr (Layout::kFeatured) {
    const FeatureMemory features(params, memory);
    __syncwarp();
    if constexpr (Layout::kKind == AttentionKind::kGat) {
      AddGatFeatures<Layout>(params, work, memory, features, edges);
    } else {
      AddDotFeatures<Layout>(params, work, memory, features, edges);
    }
  }
}

// Attends over `count` edges of the stream from `begin` on, of which the first is the row's edge `from`. To be called
// by a whole warp; `most` is the largest count in it. `own` is GAT's score of the row for head `lane` of the tile.
template <class Layout>
__device__ inline void AttendEdges(const AttentionParams& params, const TileWork<Layout>& work,
                                   const GroupMemory& memory, SourceStream<Layout>& sources, int64_t row, int64_t from,
                                   int begin, int count, int most, float own, RowSums<Layout>& sums) {
  sums.Clear();
  FeaturesOfRow row_features;
  if constexpr (Layout::kFeatured) {
    if (count > 0) {
      row_features = FindFeatures<Layout::kRowLanes>(params.features.edge, params.work.adjacency, row, from);
    }
  }
  if (sources.at != begin) sources.Load(begin, work.lane);
  for (int head = work.lane; head < work.heads; head += Layout::kRowLanes) memory.shift[head] = kNoScore;
  // The source of missing edges: one of the row's own, so that no row reads the neighbours of another.
  int32_t padding_source = 0;
#pragma unroll 1
  for (int done = 0, batch = 0; done < most; done += kAttentionBatch, ++batch) {
    const int edges = max(min(count - done, kAttentionBatch), 0), most_edges = min(most - done, kAttentionBatch);
    if (const int32_t source = __shfl_sync(kWholeWarp, sources.held[0], 0, Layout::kRowLanes); edges > 0) {
      padding_source = source;
    }
    int32_t source[Layout::kSlots];
#pragma unroll
    for (int slot = 0; slot < Layout::kSlots; ++slot) {
      const int edge = slot * Layout::kRowLanes + work.lane;
      source[slot] = edge < edges ? sources.held[slot] : padding_source;
      memory.columns[Layout::Position(edge)] = source[slot];
    }
    if (edges > 0) sources.Load(begin + done + edges, work.lane);
    ScoreBatch<Layout>(params, work, memory, row_features, row, done, edges, most_edges, source);
    if constexpr (Layout::kKind == AttentionKind::kGat) {
      if (batch == 0) {
        if (work.lane < work.heads) memory.target[work.lane] = own;
        for (int head = work.lane + Layout::kRowLanes; head < work.heads && count > 0; head += Layout::kRowLanes) {
          memory.target[head] =
              params.source.score_dst.data[row * params.source.score_dst.stride + work.first_head + head];
        }
      }
    }
    __syncwarp();
    const bool raised = ShareBatch<Layout>(params, work, memory, batch, edges, most_edges);
    __syncwarp();
    if (raised && batch > 0) {
      const float* before = memory.shift + batch % 2 * params.work.tile_heads;
      const float* after = memory.shift + (batch + 1) % 2 * params.work.tile_heads;
#pragma unroll
      for (int p = 0; p < Layout::kPacks; ++p) {
        sums.Scale(p, PowerOfTwo(before[work.head[p]] - after[work.head[p]]));
      }
    }
    if constexpr (Layout::kFeatured && Layout::kKind == AttentionKind::kDot) {
      SumFeatures<Layout>(params, work, memory, FeatureMemory(params, memory), batch, edges);
    }
#pragma unroll 1
    for (int first = 0; first < most_edges; first += Layout::kStep) {
      GatherStep<Layout>(params, work, memory, first, sums);
    }
    __syncwarp();
  }
}

template <class Layout>
__device__ inline void StorePartial(const AttentionParams& params, const TileWork<Layout>& work,
                                    const GroupMemory& memory, int count, int64_t cell, const RowSums<Layout>& sums) {
  float* partial = params.parts.partials + cell * params.parts.partial_stride;
  const int batches = (count + kAttentionBatch - 1) / kAttentionBatch;
  const float* shift = memory.shift + batches % 2 * params.work.tile_heads;
#pragma unroll
  for (int p = 0; p < Layout::kPacks; ++p) {
    if (!work.has[p]) continue;
    StorePack<Layout::kVec>(partial + work.column[p], sums.sum[0][p]);
    // Stored by all lanes of the head and all tiles that overlap it: they hold the same value.
    float* of_head = partial + params.parts.sum_floats + 2 * (work.first_head + work.head[p]);
    of_head[0] = shift[work.head[p]];
    of_head[1] = sums.total[0][p];
  }
}

// The sums of a row's pieces, relative to the largest of their shifts.
template <class Layout>
__device__ inline void MergePieces(const AttentionParams& params, const TileWork<Layout>& work, const RowPiece& piece,
                                   RowSums<Layout>& sums) {
  const float* partials = params.parts.partials + piece.first_cell * params.parts.partial_stride;
  const int64_t step = piece.cell_step * params.parts.partial_stride;
  sums.Clear();
#pragma unroll
  for (int p = 0; p < Layout::kPacks; ++p) {
    if (!work.has[p]) continue;
    const float* of_head = partials + params.parts.sum_floats + 2 * (work.first_head + work.head[p]);
    float shift = kNoScore;
    for (int64_t i = 0; i < piece.pieces; ++i) shift = fmaxf(shift, __ldcg(of_head + i * step));
    for (int64_t base = 0; base < piece.pieces; base += kAttentionChains) {
#pragma unroll
      for (int held = 0; held < Layout::kHeld; ++held) {
        const int64_t i = base + work.group + held * Layout::kGroups;
        if (i >= piece.pieces) continue;
        const float factor = PowerOfTwo(__ldcg(of_head + i * step) - shift);
        const Pack<Layout::kVec> part = LoadCoherent<Layout::kVec>(partials + i * step + work.column[p]);
        sums.total[held][p] = fmaf(factor, __ldcg(of_head + i * step + 1), sums.total[held][p]);
#pragma unroll
        for (int v = 0; v < Layout::kVec; ++v) {
          sums.sum[held][p].v[v] = fmaf(factor, part.v[v], sums.sum[held][p].v[v]);
        }
      }
    }
  }
}

// Not inlined: few plans have an epilogue here, and inlining it would raise the register count of all.
template <int kVec>
__device__ __noinline__ Pack<kVec> FinishPack(const AttentionParams* params, int64_t row, int column, Pack<kVec> out) {
  const int columns = params->work.heads * params->work.head_width;
#pragma unroll
  for (int v = 0; v < kVec; ++v) {
    if (column + v < columns) out.v[v] = ApplyEpilogue(params->out.epilogue, out.v[v], row, column + v);
  }
  return out;
}

// Stores columns [column, column + kVec) of a row: the sum of shares times rows, divided by the sum of shares.
// finish(out) is `out` with the epilogue.
template <int kVec, class Finish>
__device__ inline void StorePackAttended(const AttentionParams& params, int64_t row, int column, float total,
                                         Pack<kVec> out, const Finish& finish) {
  const int columns = params.work.heads * params.work.head_width;
  const float inverse = total != 0.0f ? __frcp_rn(total) : 0.0f;
  const bool averaged = params.out.heads_out != nullptr;
#pragma unroll
  for (int v = 0; v < kVec; ++v) out.v[v] *= inverse;
  if (!averaged && !params.out.plain) out = finish(out);
  float* dst = averaged ? params.out.heads_out + row * columns : params.out.dst.data + row * params.out.dst.stride;
  if ((averaged || params.out.dst_access != Access::kElements) && column + kVec <= columns) {
    StorePack<kVec>(dst + column, out);
    return;
  }
#pragma unroll
  for (int v = 0; v < kVec; ++v) {
    if (column + v < columns) dst[column + v] = out.v[v];
  }
}

template <class Layout>
__device__ inline void StoreAttended(const AttentionParams& params, const TileWork<Layout>& work, int64_t row,
                                     const RowSums<Layout>& sums) {
#pragma unroll
  for (int p = 0; p < Layout::kPacks; ++p) {
    if (!work.has[p]) continue;
    const int column = work.column[p];
    StorePackAttended(params, row, column, sums.total[0][p], sums.sum[0][p], [&](const Pack<Layout::kVec>& out) {
      return FinishPack<Layout::kVec>(&params, row, column, out);
    });
  }
}

// Like ArrivesLast, for partial results that are read past the L1 cache. Stores are released to the device, but the L1
// cache is not invalidated: the multiprocessor's other warps are about to read its rows.
__device__ inline bool ArrivesLastKeepingL1(int* ticket, int64_t pieces, unsigned mask, bool leader) {
  __syncwarp(mask);
  int before = 0;
  if (leader) {
    asm volatile("atom.add.release.gpu.global.s32 %0, [%1], 1;" : "=r"(before) : "l"(ticket) : "memory");
  }
  before = __shfl_sync(mask, before, __ffs(mask) - 1);
  if (before != pieces - 1) return false;
  if (leader) *ticket = 0;
  return true;
}

// Processes adjacent cells, each of which is a piece of a long row or empty. Only the first searches for its row.
template <class Layout>
__device__ inline void AttendCells(const AttentionParams& params, const TileWork<Layout>& work,
                                   const GroupMemory& memory, int64_t first) {
  constexpr int kRowLanes = Layout::kRowLanes;
  const CsrView& adjacency = params.work.adjacency;
  const unsigned mask = GroupMask<kRowLanes>();
  int row = 0;
#pragma unroll 1
  for (int i = 0; i < params.work.cells_per_group; ++i) {
    const int64_t cell = first + i;
    int64_t begin = 0;
    int count = 0;
    if (cell < params.parts.cells) {
      const int64_t edge = cell * kAttentionUnit;
      row = static_cast<int>(i == 0 ? RowOfEdge<kRowLanes>(adjacency.row_ptr, adjacency.rows, edge)
                                    : RowOfLaterEdge<kRowLanes>(adjacency.row_ptr, adjacency.rows, row, edge));
      const RowPiece piece = PieceAt(adjacency.row_ptr, kAttentionUnit, cell, row);
      if (piece.row >= 0) {
        if (work.lane == 0) *memory.piece = piece;
        begin = piece.begin;
        count = static_cast<int>(piece.end - begin);
      }
    }
    const int most = kRowLanes == 32 ? count : WarpMax(count);
    if (most == 0) continue;
    float own = 0.0f;
    if (Layout::kKind == AttentionKind::kGat && count > 0 && work.lane < work.heads) {
      own = __ldg(params.source.score_dst.data + row * params.source.score_dst.stride + work.first_head + work.lane);
    }
    SourceStream<Layout> sources{adjacency.col + begin, count};
    RowSums<Layout> sums;
    const int64_t from = Layout::kFeatured && count > 0 ? begin - __ldg(adjacency.row_ptr + row) : 0;
    AttendEdges<Layout>(params, work, memory, sources, row, from, 0, count, most, own, sums);
    sums.MergeChains(kWholeWarp);
    if (count > 0) {
      const RowPiece piece = *memory.piece;
      bool last = true;
      if (piece.split()) {
        if (work.group == 0) StorePartial<Layout>(params, work, memory, count, piece.cell, sums);
        if constexpr (Layout::kFeatured && Layout::kKind == AttentionKind::kDot) {
          StoreFeaturePartial<Layout>(params, work, FeatureMemory(params, memory),
                                      params.parts.partials + piece.cell * params.parts.partial_stride);
        }
        int* ticket = params.parts.tickets + blockIdx.y * params.parts.cells + piece.first_cell;
        last = ArrivesLastKeepingL1(ticket, piece.pieces, mask, work.lane == 0);
        if (last) {
          MergePieces<Layout>(params, work, piece, sums);
          sums.MergeChains(mask);
          if constexpr (Layout::kFeatured && Layout::kKind == AttentionKind::kDot) {
            MergeFeatures<Layout>(params, work, FeatureMemory(params, memory), piece);
            __syncwarp(mask);
          }
        }
      }
      if (last && work.group == 0) {
        if constexpr (Layout::kFeatured && Layout::kKind == AttentionKind::kDot) {
          AddSummedFeatures<Layout>(params, work, FeatureMemory(params, memory), sums.sum[0]);
        }
        StoreAttended<Layout>(params, work, row, sums);
      }
    }
    __syncwarp();
  }
}

// The lower half of a row's offset. Only differences of offsets are needed.
__device__ inline uint32_t LowOffset(const int64_t* row_ptr, int row) {
  return __ldg(reinterpret_cast<const uint32_t*>(row_ptr + row));
}

// If its rows have at most this many edges together, a group of lanes prefetches all their sources into the L2 cache
// before it starts. Otherwise a row of few edges would have few bytes in flight, and none while its scores are
// computed.
constexpr int kPrefetchedEdges = kAttentionBatch;

// REQUIRES: at most kPrefetchedEdges edges, whose source ids are loaded.
template <class Layout>
__device__ inline void PrefetchRows(const AttentionParams& params, const TileWork<Layout>& work,
                                    const SourceStream<Layout>& sources) {
  constexpr int kLine = 32;  // floats
  const int begin = static_cast<int>(blockIdx.y) * Layout::kTile;
  const int end = min(begin + Layout::kTile, params.work.heads * params.work.head_width);
#pragma unroll
  for (int slot = 0; slot * Layout::kRowLanes < kPrefetchedEdges; ++slot) {
    if (slot * Layout::kRowLanes + work.lane >= sources.stop) continue;
    const int32_t source = sources.held[slot];
    if (Layout::kKind == AttentionKind::kGat) Prefetch(params.source.scored.row(source) + work.first_head);
#pragma unroll 1
    for (int column = begin; column < end; column += kLine) Prefetch(params.source.value.row(source) + column);
  }
}

// Processes adjacent rows, except those that are cut. Loads for the next row are in flight while a row is processed. No
// row has 2^31 edges or more.
template <class Layout>
__device__ inline void AttendRows(const AttentionParams& params, const TileWork<Layout>& work,
                                  const GroupMemory& memory, int64_t first_row) {
  const CsrView& adjacency = params.work.adjacency;
  const int first = static_cast<int>(min(first_row, adjacency.rows));
  const int last = static_cast<int>(min(first_row + params.work.rows_per_group, adjacency.rows));
  const bool has_own = Layout::kKind == AttentionKind::kGat && work.lane < work.heads;
  const auto own_of = [&](int row) {
    return __ldg(params.source.score_dst.data + row * params.source.score_dst.stride + work.first_head + work.lane);
  };
  const int64_t start = __ldg(adjacency.row_ptr + first);
  const uint32_t base = static_cast<uint32_t>(start);
  SourceStream<Layout> sources{adjacency.col + start, static_cast<int>(LowOffset(adjacency.row_ptr, last) - base)};
  if (params.work.rows_per_group > 1 && sources.stop <= kPrefetchedEdges) {
    sources.Load(0, work.lane);
    PrefetchRows<Layout>(params, work, sources);
  }
  uint32_t next_end = first < last ? LowOffset(adjacency.row_ptr, first + 1) : base;
  float next_own = first < last && has_own ? own_of(first) : 0.0f;
  int begin = 0;
#pragma unroll 1
  for (int i = 0; i < params.work.rows_per_group; ++i) {
    const int row = first + i;
    const float own = next_own;
    const int end = static_cast<int>(next_end - base);
    if (row + 1 < last) {
      next_end = LowOffset(adjacency.row_ptr, row + 2);
      if (has_own) next_own = own_of(row + 1);
    }
    const bool whole = row < last && (params.parts.cells == 0 || !IsLongRow(end - begin, kAttentionUnit));
    const int count = whole ? end - begin : 0;
    const int most = Layout::kRowLanes == 32 ? count : WarpMax(count);
    RowSums<Layout> sums;
    AttendEdges<Layout>(params, work, memory, sources, row, 0, begin, count, most, own, sums);
    sums.MergeChains(kWholeWarp);
    if constexpr (Layout::kFeatured && Layout::kKind == AttentionKind::kDot) {
      if (count > 0 && work.group == 0) {
        AddSummedFeatures<Layout>(params, work, FeatureMemory(params, memory), sums.sum[0]);
      }
    }
    if (whole && work.group == 0) StoreAttended<Layout>(params, work, row, sums);
    begin = end;
  }
}

// Blocks for `count` items of work, with `per_group` items per group of lanes.
template <class Layout>
__host__ __device__ inline int64_t Blocks(int64_t count, int per_group) {
  const int64_t per_block = int64_t{Layout::kRowsPerBlock} * per_group;
  return (count + per_block - 1) / per_block;
}

template <class Layout>
__global__ void __launch_bounds__(kAttentionThreads, Layout::kMinBlocks)
    FusedAttention(const __grid_constant__ AttentionParams params) {
  extern __shared__ float4 shared[];
  const int in_block = static_cast<int>(threadIdx.x) / Layout::kRowLanes;
  const TileWork<Layout> work(params);
  int group_floats = GroupFloats(params.work.tile_heads);
  if constexpr (Layout::kFeatured) {
    group_floats += FeatureFloats(Layout::kKind, params.work.tile_heads, params.features.width);
  }
  const GroupMemory memory(reinterpret_cast<float*>(shared) + in_block * group_floats, params.work.tile_heads);
  // Pieces of long rows come first. A block has either pieces or rows.
  const int64_t cell_blocks = Blocks<Layout>(params.parts.cells, params.work.cells_per_group);
  const int64_t item =
      (blockIdx.x < cell_blocks ? blockIdx.x : blockIdx.x - cell_blocks) * Layout::kRowsPerBlock + in_block;
  if (blockIdx.x < cell_blocks) {
    AttendCells<Layout>(params, work, memory, item * params.work.cells_per_group);
  } else {
    AttendRows<Layout>(params, work, memory, item * params.work.rows_per_group);
  }
}

// One per kind, each in a file of its own, so that they compile in parallel. `shape` is one of kWideShapes if vec is 4,
// and one of kNarrowShapes if vec is 1.
cudaError_t LaunchGat(const AttentionParams& params, int vec, const AttentionShape& shape, cudaStream_t stream);
cudaError_t LaunchGatV2(const AttentionParams& params, int vec, const AttentionShape& shape, cudaStream_t stream);
cudaError_t LaunchDot(const AttentionParams& params, int vec, const AttentionShape& shape, cudaStream_t stream);
// The same with features of edges.
cudaError_t LaunchFeaturedGat(const AttentionParams& params, int vec, const AttentionShape& shape, cudaStream_t stream);
cudaError_t LaunchFeaturedGatV2(const AttentionParams& params, int vec, const AttentionShape& shape,
                                cudaStream_t stream);
cudaError_t LaunchFeaturedDot(const AttentionParams& params, int vec, const AttentionShape& shape, cudaStream_t stream);
// The kernel of fused_small_rows.cuh, with tiles of 32, 64 or 128 columns, read 16 bytes at a time. REQUIRES:
// params.work.tile_heads <= kSmallHeads.
cudaError_t LaunchSmallGat(const AttentionParams& params, int tile, bool overlap, cudaStream_t stream);

template <class Layout>
cudaError_t LaunchAttentionLayout(const AttentionParams& params, cudaStream_t stream) {
  const int64_t blocks = Blocks<Layout>(params.parts.cells, params.work.cells_per_group) +
                         Blocks<Layout>(params.work.adjacency.rows, params.work.rows_per_group);
  const int64_t columns = int64_t{params.work.heads} * params.work.head_width;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>((columns + Layout::kTile - 1) / Layout::kTile));
  size_t shared = SharedBytes(params.work.tile_heads, Layout::kRowsPerBlock);
  if constexpr (Layout::kFeatured) {
    shared += FeatureBytes(Layout::kKind, params.work.tile_heads, params.features.width, Layout::kRowsPerBlock);
  }
  FusedAttention<Layout><<<grid, kAttentionThreads, shared, stream>>>(params);
  return cudaGetLastError();
}

// Launches the layout of `shape`, searching the list from index kAt on.
template <AttentionKind kKind, bool kFeatured, int kVec, int kAt = 0>
cudaError_t LaunchAttentionShape(const AttentionParams& params, const AttentionShape& shape, cudaStream_t stream) {
  constexpr int kShapes = static_cast<int>(kVec == 4 ? std::size(kWideShapes) : std::size(kNarrowShapes));
  if constexpr (kAt < kShapes) {
    constexpr AttentionShape kShape = kVec == 4 ? kWideShapes[kAt] : kNarrowShapes[kAt % std::size(kNarrowShapes)];
    if (shape.lanes == kShape.lanes && shape.groups == kShape.groups && shape.packs == kShape.packs) {
      using Layout = AttentionLayout<kKind, kVec, kShape.lanes, kShape.groups, kShape.packs, kFeatured>;
      return LaunchAttentionLayout<Layout>(params, stream);
    }
    return LaunchAttentionShape<kKind, kFeatured, kVec, kAt + 1>(params, shape, stream);
  }
  return cudaErrorInvalidValue;
}

template <AttentionKind kKind, bool kFeatured = false>
cudaError_t LaunchAttentionKind(const AttentionParams& params, int vec, const AttentionShape& shape,
                                cudaStream_t stream) {
  return vec == 4 ? LaunchAttentionShape<kKind, kFeatured, 4>(params, shape, stream)
                  : LaunchAttentionShape<kKind, kFeatured, 1>(params, shape, stream);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_DETAIL_FUSED_ROWS_CUH_

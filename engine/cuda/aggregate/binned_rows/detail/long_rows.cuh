// SPDX-License-Identifier: Apache-2.0
// Long rows of binned_rows (row_work.h). A warp, or on small graphs a block per piece, reads several edges of one row
// at once.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_DETAIL_LONG_ROWS_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_DETAIL_LONG_ROWS_CUH_

#include <cstdint>

#include "engine/cuda/aggregate/rows/row_lanes.cuh"
#include "engine/cuda/aggregate/rows/row_product.cuh"
#include "engine/cuda/aggregate/rows/split_parts.cuh"
#include "engine/cuda/common/overlap.cuh"

namespace vicinal::cuda {

// The chains that a lane keeps if kGroups groups share a piece. Kept chain k of group g is chain k * kGroups + g.
template <class Layout, class Mode, int kGroups>
struct Chains {
  static constexpr int kKept = kChains / kGroups;
  float v[kKept][Layout::kVec];

  __device__ void Clear() {
#pragma unroll
    for (int k = 0; k < kKept; ++k)
#pragma unroll
      for (int i = 0; i < Layout::kVec; ++i) v[k][i] = Identity<Mode>();
  }
  // Adds the sum of the piece, whose chains are distributed over the warp's groups, to `total` of all groups.
  __device__ void AddTo(float (&total)[Layout::kVec]) {
#pragma unroll
    for (int n = kKept / 2; n > 0; n /= 2)
#pragma unroll
      for (int k = 0; k < n; ++k)
#pragma unroll
        for (int i = 0; i < Layout::kVec; ++i) v[k][i] = Combined<Mode>(v[k][i], v[k + n][i]);
#pragma unroll
    for (int i = 0; i < Layout::kVec; ++i) {
      float x = v[0][i];
#pragma unroll
      for (int bit = kGroups / 2; bit > 0; bit /= 2) {
        x = Combined<Mode>(x, __shfl_xor_sync(kWholeWarp, x, bit * Layout::kLanes));
      }
      total[i] = Combined<Mode>(total[i], x);
    }
  }
};

// How a warp reads a long row. Staged list g belongs to group g.
template <class Layout>
struct WarpRows {
  static constexpr int kLoads = Layout::kGroups == 1 ? 8 : 4;  // gathered rows per lane in flight
  static constexpr int kList = kPieceEdges / Layout::kGroups + 4;
  static constexpr int kKept = kChains / Layout::kGroups;
  static_assert(kLoads % kKept == 0 && Layout::kGroups * kList <= kBundleItems * (kShortEdges + 4));
};

// Stages edges [begin, begin + count), at most a piece. Pads the lists to whole rounds with a valid source. Edges at a
// distance of a warp go to the same group, so that each lane fills one list.
template <class Layout, class Mode>
__device__ inline void StagePiece(const RowsParams& params, int64_t begin, int count, int lane,
                                  Staged<Layout, Mode>* staged) {
  constexpr int kCount = 4, kStep = kWarpLanes / Layout::kGroups;
  constexpr int kRound = WarpRows<Layout>::kLoads * Layout::kGroups;
  const int filled = (count + kRound - 1) / kRound * kRound;
  const int64_t first = begin + lane;
  const int32_t* col = params.work.adjacency.col + first;  // if lean: of the next load
  // Stops the compiler from recomputing it for every load.
  if constexpr (Mode::kLean) asm volatile("" : "+l"(col));
  const int list = lane % Layout::kGroups * WarpRows<Layout>::kList + lane / Layout::kGroups;
#pragma unroll 1
  for (int done = 0; done < filled; done += kCount * kWarpLanes) {
    const auto within = [&](int i) { return done + i * kWarpLanes; };
    const auto wanted = [&](int i) { return within(i) < count - lane; };
    int32_t source[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      source[i] = 0;
      if (wanted(i)) source[i] = __ldg(col + (Mode::kLean ? i * kWarpLanes : within(i)));
    }
    if constexpr (Mode::kLean) col += kCount * kWarpLanes;
    float weight[kCount];
    FetchWeights<Mode>(
        params, source, [&](int i) { return first + within(i); }, wanted, weight);
    const int to = list + done / Layout::kGroups;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (within(i) >= filled - lane) continue;
      staged->source[to + i * kStep] = source[i];
      if constexpr (Mode::kWeighted) staged->weight[to + i * kStep] = weight[i];
    }
  }
}

// Adds the next kLoads of the `left` remaining entries of the group's list, from index `list` on. kAll: all kLoads
// exist. Otherwise padded entries are loaded but not added, as a conditional load is slower.
template <class Layout, class Mode, bool kAll>
__device__ inline void RunRound(const RowsParams& params, const char* src, const Staged<Layout, Mode>& staged, int list,
                                int left, Chains<Layout, Mode, Layout::kGroups>& sum) {
  constexpr int kLoads = WarpRows<Layout>::kLoads;
  typename Layout::Load::Raw x[kLoads];
#pragma unroll
  for (int four = 0; four < kLoads; four += 4) {
    const FourSources source(staged, list + four);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[four + i] = Gathered<Layout, Mode::kLean>(params, src, source[i]);
    }
  }
#pragma unroll
  for (int four = 0; four < kLoads; four += 4) {
    const FourWeights weight(staged, list + four);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!kAll && four + i >= left) continue;
#pragma unroll
      for (int c = 0; c < Layout::kVec; ++c) {
        float& s = sum.v[(four + i) % WarpRows<Layout>::kKept][c];
        s = WithMessage<Mode>(s, weight[i], Layout::Load::At(x[four + i], c));
      }
    }
  }
}

// Adds the sum of edges [begin, begin + count), at most a piece, to `total`.
template <class Layout, class Mode>
__device__ inline void JoinPiece(const RowsParams& params, const Lane<Layout>& at, const char* src, int64_t begin,
                                 int count, Staged<Layout, Mode>* staged, float (&total)[Layout::kVec]) {
  constexpr int kLoads = WarpRows<Layout>::kLoads;
  __syncwarp();
  StagePiece<Layout, Mode>(params, begin, count, at.lane, staged);
  AwaitPreviousKernels();
  __syncwarp();
  Chains<Layout, Mode, Layout::kGroups> sum;
  sum.Clear();
  int list = at.group * WarpRows<Layout>::kList;
  int left = (count - at.group + Layout::kGroups - 1) / Layout::kGroups;
#pragma unroll 1
  for (; left >= kLoads; left -= kLoads, list += kLoads) {
    RunRound<Layout, Mode, true>(params, src, *staged, list, left, sum);
  }
  if (left > 0) RunRound<Layout, Mode, false>(params, src, *staged, list, left, sum);
  __syncwarp();
  sum.AddTo(total);
}

// Finishes an item whose sum every group holds.
template <class Layout>
__device__ inline void FinishLong(const RowsParams& params, const Lane<Layout>& at, const char* src,
                                  const Finish& finish, float (&sum)[Layout::kVec]) {
  if constexpr (Layout::kProduct) {
    if (finish.row >= 0) {
      MultiplySum(params, at, src, finish, at.group == 0 ? finish.row : -1, WeightsAhead<0>(), sum);
      return;
    }
  }
  if (at.group == 0 && at.has_columns(params)) FinishRow(params, at, src, finish, sum);
}

// Sums the long rows, and parts of rows, among the warp's items. Lane l has fetched item l mod kItems. Returns false if
// there are none.
template <class Layout, class Mode>
__device__ inline bool SumLongRows(const RowsParams& params, const Lane<Layout>& at, const char* src, const Item& mine,
                                   Staged<Layout, Mode>* staged) {
  unsigned left = __ballot_sync(kWholeWarp, IsLong(mine.finish)) & ((1u << Layout::kItems) - 1u);
  if (left == 0) return false;
  if (at.lane < Layout::kItems) staged->finish[at.lane] = mine.finish;
#pragma unroll 1
  for (; left != 0; left &= left - 1) {
    const int slot = __ffs(static_cast<int>(left)) - 1;
    int64_t begin = static_cast<int64_t>(__shfl_sync(kWholeWarp, static_cast<long long>(mine.begin), slot));
    int count = __shfl_sync(kWholeWarp, mine.finish.count, slot);
    // `result` sums the previous quads, `total` the pieces of the current quad.
    float result[Layout::kVec], total[Layout::kVec];
#pragma unroll
    for (int i = 0; i < Layout::kVec; ++i) result[i] = total[i] = Identity<Mode>();
#pragma unroll 1
    for (int piece = 1;; ++piece) {
      JoinPiece<Layout, Mode>(params, at, src, begin, min(count, kPieceEdges), staged, total);
      begin += kPieceEdges;
      count -= kPieceEdges;
      if (count > 0 && piece % kPiecesPerQuad != 0) continue;
#pragma unroll
      for (int i = 0; i < Layout::kVec; ++i) {
        result[i] = Combined<Mode>(result[i], total[i]);
        total[i] = Identity<Mode>();
      }
      if (count <= 0) break;
    }
    FinishLong(params, at, src, staged->finish[slot], result);
  }
  return true;
}

// How a block reads a piece. It uses the groups of all its warps, but at most one per chain. The chains end up in
// shared memory, [kChains, Layout::kTile].
template <class Layout>
struct BlockRows {
  static constexpr int kGroups = kBlockWarps * Layout::kGroups < kChains ? kBlockWarps * Layout::kGroups : kChains;
  static constexpr int kKept = kChains / kGroups;
  static constexpr int kLoads = 8;
};

// Sums the chains of group `group` of the block.
template <class Layout, class Mode>
__device__ inline void SumChains(const RowsParams& params, const Staged<Layout, Mode>& staged, const char* src,
                                 int group, int count, float (&v)[BlockRows<Layout>::kKept][Layout::kVec]) {
  using Block = BlockRows<Layout>;
#pragma unroll 1
  for (int begin = group; begin < count; begin += Block::kLoads * Block::kGroups) {
    typename Layout::Load::Raw x[Block::kLoads];
#pragma unroll
    for (int load = 0; load < Block::kLoads; ++load) {
      const int edge = begin + load * Block::kGroups;
      if (edge < count) x[load] = Gathered<Layout, Mode::kLean>(params, src, staged.source[edge]);
    }
#pragma unroll
    for (int load = 0; load < Block::kLoads; ++load) {
      const int edge = begin + load * Block::kGroups;
      if (edge >= count) continue;
#pragma unroll
      for (int i = 0; i < Layout::kVec; ++i) {
        float& s = v[load % Block::kKept][i];
        s = WithMessage<Mode>(s, Mode::kWeighted ? staged.weight[edge] : 1.0f, Layout::Load::At(x[load], i));
      }
    }
  }
}

// Sums one item of at most a piece with the whole block.
template <class Layout, class Mode>
__device__ inline void SumPiece(const RowsParams& params, const Lane<Layout>& at, const char* src, const Item& item,
                                Staged<Layout, Mode>* staged) {
  using Block = BlockRows<Layout>;
  __shared__ float chains[kChains][Layout::kTile];
  constexpr int kCount = kPieceEdges / kBlockThreads;
  const int count = item.finish.count;
  const auto within = [](int i) { return i * kBlockThreads + static_cast<int>(threadIdx.x); };
  const auto edge = [&](int i) { return item.begin + within(i); };
  const auto wanted = [&](int i) { return within(i) < count; };
  int32_t source[kCount] = {};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (wanted(i)) source[i] = __ldg(params.work.adjacency.col + edge(i));
  }
  float weight[kCount];
  FetchWeights<Mode>(params, source, edge, wanted, weight);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    staged->source[within(i)] = source[i];
    if constexpr (Mode::kWeighted) staged->weight[within(i)] = weight[i];
  }
  AwaitPreviousKernels();
  __syncthreads();
  const int group = at.warp * Layout::kGroups + at.group, offset = at.column - at.tile;
  if (group < Block::kGroups) {
    float v[Block::kKept][Layout::kVec];
#pragma unroll
    for (int k = 0; k < Block::kKept; ++k)
#pragma unroll
      for (int i = 0; i < Layout::kVec; ++i) v[k][i] = Identity<Mode>();
    SumChains<Layout, Mode>(params, *staged, src, group, count, v);
#pragma unroll
    for (int k = 0; k < Block::kKept; ++k)
#pragma unroll
      for (int i = 0; i < Layout::kVec; ++i) chains[k * Block::kGroups + group][offset + i] = v[k][i];
  }
  __syncthreads();
  if (at.warp > 0) return;
  float result[Layout::kVec];
#pragma unroll
  for (int i = 0; i < Layout::kVec; ++i) {
    float c[kChains];
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) c[chain] = chains[chain][offset + i];
#pragma unroll
    for (int n = kChains / 2; n > 0; n /= 2)
#pragma unroll
      for (int k = 0; k < n; ++k) c[k] = Combined<Mode>(c[k], c[k + n]);
    result[i] = Combined<Mode>(Identity<Mode>(), c[0]);
  }
  FinishLong(params, at, src, item.finish, result);
  FinishWithPart(params, at, item.finish.row);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_DETAIL_LONG_ROWS_CUH_

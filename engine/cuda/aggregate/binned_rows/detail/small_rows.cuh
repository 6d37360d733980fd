// SPDX-License-Identifier: Apache-2.0
// binned_rows on small graphs (row_work.h). Such a launch is bound by latencies and by each warp's fixed instructions,
// so there are few of both. A group of lanes sums one short row. It loads the indices itself: the next eight while it
// waits for rows, and the row's factor while it waits for indices. Each longer row has a block (long_rows.cuh). Order
// of evaluation: row_work.h.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_DETAIL_SMALL_ROWS_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_DETAIL_SMALL_ROWS_CUH_

#include <cstdint>

#include "engine/cuda/aggregate/binned_rows/detail/long_rows.cuh"
#include "engine/cuda/aggregate/rows/held_edges.cuh"
#include "engine/cuda/aggregate/rows/row_lanes.cuh"
#include "engine/cuda/aggregate/rows/row_product.cuh"
#include "engine/cuda/common/overlap.cuh"
#include "engine/cuda/common/warp_extremes.cuh"

namespace vicinal::cuda {

// Sums a row of `count` edges from edge `first` on. The longest row of the warp has `longest` edges. Rows are loaded
// for missing edges too, but not added, as a conditional load is slower.
template <class Layout, class Mode>
__device__ inline void SumRow(const RowsParams& params, const Lane<Layout>& at, const char* src, int first, int count,
                              int longest, float (&total)[Layout::kVec]) {
  using Held = HeldEdges<Layout>;
  constexpr int kStep = Held::kStep;
  const int32_t* const col = params.work.adjacency.col + first;
  uint32_t stride = params.source.stride_bytes;
  if constexpr (Mode::kLean && sizeof(typename Layout::Element) == 2) asm("" : "+r"(stride));  // as in Gathered()
  int32_t source[Held::kHeld];
#pragma unroll
  for (int h = 0; h < Held::kHeld; ++h) {
    source[h] = 0;
    if (count > 0) source[h] = __ldg(col + Held::Edge(0, h, at.lane, count - 1));
  }
  AwaitPreviousKernels();
#pragma unroll 1
  for (int begin = 0; begin < longest; begin += kStep) {
    typename Layout::Load::Raw x[kStep];
    LoadRows<Layout, 0, kStep / 2>(source, src, stride, x);
    if (begin + kStep / 2 < longest) LoadRows<Layout, kStep / 2, kStep / 2>(source, src, stride, x);
    float weight[Held::kHeld];
    FetchWeights<Mode>(
        params, source, [&](int h) { return first + Held::Edge(begin, h, at.lane, count - 1); },
        [&](int) { return count > 0; }, weight);
#pragma unroll
    for (int h = 0; h < Held::kHeld; ++h) {
      if (begin + kStep < count) source[h] = __ldg(col + Held::Edge(begin + kStep, h, at.lane, count - 1));
    }
#pragma unroll
    for (int i = 0; i < kStep; ++i) {
      float w = 1.0f;
      if constexpr (Mode::kWeighted) w = Held::Of(weight, i);
      if (begin + i >= count) continue;
#pragma unroll
      for (int c = 0; c < Layout::kVec; ++c) {
        total[c] = WithMessage<Mode>(total[c], w, Layout::Load::At(x[i], c));
      }
    }
  }
}

// The weights of the product that a lane fetches while it waits for sources.
template <class Layout>
using SmallAhead = WeightsAhead<Layout::kProduct ? 4 : 0>;

template <class Layout>
constexpr int SmallResidentBlocks() {
  return Layout::kSimple && !Layout::kProduct ? 8 : 6;
}

template <class Layout, class Mode>
__global__ void __launch_bounds__(kBlockThreads, (SmallResidentBlocks<Layout>()))
    SmallRows(const __grid_constant__ RowsParams params) {
  TriggerNextLaunch();
  if (params.work.condition.flag != nullptr) AwaitPreviousKernels();
  if (!Holds(params.work.condition)) return;
  const int shift = Layout::kGroups == 1 ? params.work.tile_shift : 0;
  const uint32_t first_tile = blockIdx.y << shift;
  if (blockIdx.x >> shift < params.work.num_blocks) {
    // Tiles of a long row have blocks of their own.
    const Lane<Layout> at(first_tile + (blockIdx.x & ((1u << shift) - 1)));
    if (at.tile >= params.out.dst.cols) return;
    __shared__ Staged<Layout, Mode> staged;
    SumPiece<Layout, Mode>(params, at, at.Source(params), LoadItem(params, params.work.items + (blockIdx.x >> shift)),
                           &staged);
    return;
  }
  const uint32_t block = blockIdx.x - (params.work.num_blocks << shift);
  const uint32_t group = (block * kBlockThreads + threadIdx.x) / Layout::kLanes;
  int4 item = make_int4(0, -1, 0, 0);
  if (group < params.work.num_short) item = __ldg(reinterpret_cast<const int4*>(params.work.bundled) + group);
  const int row = item.x, count = item.y;
  const int longest = Layout::kGroups == 1 ? count : WarpMax(count);
  if (longest < 0) return;
  float row_scale = 1.0f;
  if (params.out.epilogue.row_scale != nullptr && count >= 0) row_scale = __ldg(params.out.epilogue.row_scale + row);
  SmallAhead<Layout> ahead;
  if constexpr (Layout::kProduct) {
    if (params.out.product.out_width <= Layout::kLanes) ahead.Load(params.out.product, threadIdx.x % Layout::kLanes);
  }
#pragma unroll 1
  for (uint32_t tile = 0; tile >> shift == 0; ++tile) {
    const Lane<Layout> at(first_tile + tile);
    if (at.tile >= params.out.dst.cols) return;
    const char* const src = at.Source(params);
    float total[Layout::kVec];
#pragma unroll
    for (int c = 0; c < Layout::kVec; ++c) total[c] = Identity<Mode>();
    // The offset fits: a small graph has fewer than 2^31 edges.
    SumRow<Layout, Mode>(params, at, src, item.z, count, longest, total);
    const Finish finish = FinishWith(params, row, count, [&] { return row_scale; });
    if constexpr (Layout::kProduct) {
      MultiplySum(params, at, src, finish, count < 0 ? -1 : row, ahead, total);
    } else if (count >= 0 && at.has_columns(params)) {
      FinishRow(params, at, src, finish, total);
    }
  }
}

template <class Layout, class Mode>
cudaError_t LaunchSmallLayout(RowsParams params, const LaunchTarget& target) {
  // With far more warps than a GPU runs at once, each computes two tiles: the second finds item and indices in the L1
  // cache.
  constexpr int64_t kManyWarps = 3 << 12;
  constexpr int64_t kBlockRows = kBlockWarps * Layout::kGroups;
  const int64_t tiles = (params.out.dst.cols + Layout::kTile - 1) / Layout::kTile;
  params.work.tile_shift = Layout::kGroups == 1 && tiles > 1 && params.work.num_short * tiles > kManyWarps ? 1 : 0;
  const int64_t blocks = (int64_t{params.work.num_blocks} << params.work.tile_shift) +
                         (int64_t{params.work.num_short} + kBlockRows - 1) / kBlockRows;
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>((tiles + (1 << params.work.tile_shift) - 1) >> params.work.tile_shift));
  return LaunchOverlapping(target.overlap, SmallRows<Layout, Mode>, grid, kBlockThreads, target.stream, params);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_DETAIL_SMALL_ROWS_CUH_

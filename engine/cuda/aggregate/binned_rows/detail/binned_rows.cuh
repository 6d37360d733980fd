// SPDX-License-Identifier: Apache-2.0
// binned_rows: aggregation by warps, work handed out by length.
//
// Idea. What bounds it on large graphs is how many bytes are in flight, so whatever a row's length, every lane has 4 to
// 8 gathered rows under way: several short rows to a warp (short_rows.cuh), twice as many where there are many of few
// edges, several edges of a longer one at once (long_rows.cuh). Where there are few edges in all, a group of lanes has
// one short row and a block one long row (small_rows.cuh): what counts there is how little every warp executes;
// elsewhere it counts, too, most of all where rows are narrow or stored in 16 bits. Who works on what is decided
// beforehand (row_work.h): rows are started longest first, long ones are cut, and their parts added in order, by
// whoever has the last one (split_parts.cuh) or, where parts are many or a launch is long, by a second small kernel. A
// small product that follows may be made of a row where it is finished (row_product.cuh). Order of evaluation:
// row_work.h; equal bits at every run, for every tile, with work lists and without.
//
// Moves edges * (4 + s * width) bytes of gather (4 more per edge with weights), rows * (16 + 4 * width) besides, for
// rows of more than kShortEdges edges of a large graph 128 in place of 16, or 256 in wide bundles; s is 4, or 2 for
// rows stored in 16 bits. Bound by the L2's read speed where sources are read often, by memory where not. Related:
// GE-SpMM's coarsened warps, Sputnik's order by length and its subwarp per row, RoDe's cut of long rows.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_DETAIL_BINNED_ROWS_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_DETAIL_BINNED_ROWS_CUH_

#include <cstdint>

#include "engine/cuda/aggregate/binned_rows/binned_rows.h"
#include "engine/cuda/aggregate/binned_rows/detail/long_rows.cuh"
#include "engine/cuda/aggregate/binned_rows/detail/short_rows.cuh"
#include "engine/cuda/aggregate/binned_rows/detail/small_rows.cuh"
#include "engine/cuda/aggregate/rows/row_lanes.cuh"
#include "engine/cuda/aggregate/rows/split_rows.cuh"
#include "engine/cuda/common/overlap.cuh"

namespace vicinal::cuda {

// Blocks of a multiprocessor that registers must be left for: the most that do not make the compiler spill in a loop.
template <class Layout, class Mode>
constexpr int ResidentBlocks() {
  if (Layout::kItems > kBundleItems && Mode::kWeighted) {
    return ResidentBlocks<RowLayout<typename Layout::Element, Layout::kVec, Layout::kLanes, Layout::kSimple>, Mode>() -
           1;
  }
  if (Layout::kProduct && Layout::kSimple) return Layout::kGroups == 2 ? 7 : 8;
  if (Layout::kVec > 4) return Layout::kSimple ? 7 : Layout::kGroups > 4 ? 5 : 4;
  if (Layout::kSimple) return Layout::kGroups == 2 ? 8 : 9;
  return Layout::kGroups == 2 ? 5 : 6;
}

template <class Layout, class Mode>
__global__ void __launch_bounds__(kBlockThreads, (ResidentBlocks<Layout, Mode>()))
    BinnedRows(const __grid_constant__ RowsParams params) {
  // FinishSplitRows or the next kernel; it waits for the sums by itself.
  LetNextBegin();
  if (params.work.condition.flag != nullptr) AwaitFormer();
  if (!Holds(params.work.condition)) return;
  __shared__ Staged<Layout, Mode> staged[kBlockWarps];
  const Lane<Layout> at(blockIdx.y);
  const char* src = at.Source(params);
  const uint32_t bundle = blockIdx.x * kBlockWarps + at.warp;
  if (bundle >= params.work.num_bundles) return;
  int slot = at.lane % Layout::kItems;
  // Where items are fetched again, it is from the L1, and the compiler does not see that they are the same: kept
  // through the loops of long rows, they would cost registers that the kernel lives by.
  if constexpr (Mode::kLean) {
    Item mine = LoadBundled<Layout>(params, bundle, slot);
    if (SumLongRows<Layout, Mode>(params, at, src, mine, &staged[at.warp])) {
      if (params.work.bundled != nullptr) {
        FinishWithPart(params, at, staged[at.warp].finish[0].row);
        return;
      }
      asm volatile("" : "+r"(slot));
      mine = LoadBundled<Layout>(params, bundle, slot);
    }
    SumShortRows<Layout, Mode>(params, at, src, mine, &staged[at.warp]);
  } else {
    const Item mine = LoadBundled<Layout>(params, bundle, slot);
    const bool any = SumLongRows<Layout, Mode>(params, at, src, mine, &staged[at.warp]);
    if (any && params.work.bundled != nullptr) {
      FinishWithPart(params, at, staged[at.warp].finish[0].row);
      return;
    }
    asm volatile("" : "+r"(slot));
    SumShortRows<Layout, Mode>(params, at, src, LoadBundled<Layout>(params, bundle, slot), &staged[at.warp]);
  }
}

template <class Layout, class Mode>
cudaError_t LaunchRowLayout(const RowsParams& params, const LaunchTarget& target) {
  const int64_t blocks = (int64_t{params.work.num_bundles} + kBlockWarps - 1) / kBlockWarps;
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>((params.out.dst.cols + Layout::kTile - 1) / Layout::kTile));
  return LaunchOverlapping(target.overlap, BinnedRows<Layout, Mode>, grid, kBlockThreads, target.stream, params);
}

// One mode each, in files of their own: they compile side by side. `lanes` (4, 8, 16 or more) of which each
// reads `vec` elements at a time: 1 or 4, of 2 bytes also 8.
cudaError_t LaunchPlainSum(const RowsParams& params, int vec, int lanes, const LaunchTarget& target);
cudaError_t LaunchWeightedSum(const RowsParams& params, int vec, int lanes, const LaunchTarget& target);
cudaError_t LaunchExtremum(const RowsParams& params, int vec, int lanes, const LaunchTarget& target);
cudaError_t LaunchNarrow(const RowsParams& params, bool weighted, int vec, int lanes, const LaunchTarget& target);
// Sums that are multiplied, in float32; `lanes`, 4, 8 or 16, have all columns, 4 at a time. And the rows of them that
// were split.
cudaError_t LaunchProduct(const RowsParams& params, int lanes, const LaunchTarget& target);
cudaError_t LaunchMultiplySplitRows(const RowsParams& params, const SplitRows& splits, const LaunchTarget& target);

template <class Element, int kVec, int kLanes, class Mode>
cudaError_t LaunchLanes(const RowsParams& params, const LaunchTarget& target) {
  if constexpr (kVec > 1) {
    if (params.work.bundle_items == kWideItems) {
      return params.out.simple()
                 ? LaunchRowLayout<RowLayout<Element, kVec, kLanes, true, kWideItems>, Mode>(params, target)
                 : LaunchRowLayout<RowLayout<Element, kVec, kLanes, false, kWideItems>, Mode>(params, target);
    }
  }
  return params.out.simple() ? LaunchRowLayout<RowLayout<Element, kVec, kLanes, true>, Mode>(params, target)
                             : LaunchRowLayout<RowLayout<Element, kVec, kLanes, false>, Mode>(params, target);
}

template <class Element, int kVec, int kLanes, class Mode>
cudaError_t LaunchSmallLanes(const RowsParams& params, const LaunchTarget& target) {
  return params.out.simple() ? LaunchSmallLayout<RowLayout<Element, kVec, kLanes, true>, Mode>(params, target)
                             : LaunchSmallLayout<RowLayout<Element, kVec, kLanes, false>, Mode>(params, target);
}

// Where the work list has blocks and short rows in place of bundles.
template <class Element, class Mode>
cudaError_t LaunchSmall(const RowsParams& params, int lanes, const LaunchTarget& target) {
  if (lanes <= 4) return LaunchSmallLanes<Element, 4, 4, Mode>(params, target);
  if (lanes <= 8) return LaunchSmallLanes<Element, 4, 8, Mode>(params, target);
  if (lanes <= 16) return LaunchSmallLanes<Element, 4, 16, Mode>(params, target);
  return LaunchSmallLanes<Element, 4, 32, Mode>(params, target);
}

// The layouts of rows of float32.
template <class Mode>
cudaError_t LaunchFloatRows(const RowsParams& params, int vec, int lanes, const LaunchTarget& target) {
  if (params.work.num_short + params.work.num_blocks > 0) return LaunchSmall<float, Mode>(params, lanes, target);
  if (vec == 1) {
    return lanes <= 8 ? LaunchLanes<float, 1, 8, Mode>(params, target)
                      : LaunchLanes<float, 1, 32, Mode>(params, target);
  }
  if (lanes <= 4) return LaunchLanes<float, 4, 4, Mode>(params, target);
  if (lanes <= 8) return LaunchLanes<float, 4, 8, Mode>(params, target);
  return LaunchLanes<float, 4, 16, Mode>(params, target);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_DETAIL_BINNED_ROWS_CUH_

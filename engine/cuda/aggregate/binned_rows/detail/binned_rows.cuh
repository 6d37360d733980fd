// SPDX-License-Identifier: Apache-2.0
// binned_rows: aggregation by warps, with rows grouped by length.
//
// Idea. On large graphs, the number of bytes in flight is the bottleneck, so every lane keeps 4 to 8 gathered rows in
// flight whatever the row lengths. A warp sums several short rows (short_rows.cuh), twice as many if there are many
// rows of few edges, and several edges of a longer row at once (long_rows.cuh). On small graphs, a group of lanes sums
// one short row and a block one long row (small_rows.cuh), as the instructions per warp are the bottleneck there. They
// also matter elsewhere, most of all for narrow or 16-bit rows.
// The work is distributed in advance (row_work.h): rows start longest first, and long rows are cut. The warp that
// stores a row's last part adds its parts in order (split_parts.cuh); if there are many parts, or the launch is long, a
// second small kernel does. A small product may follow each finished row (row_product.cuh).
// Order of evaluation: row_work.h. The bits are equal in every run, for every tile, with and without work lists.
//
// Traffic: edges * (4 + s * width) bytes of gather (4 more per edge with weights) and rows * (16 + 4 * width) bytes
// besides, where s is 4, or 2 for 16-bit rows. On large graphs, rows of more than kShortEdges edges cost 128 bytes, or
// 256 in wide bundles, in place of the 16. The bound is the L2's read bandwidth if sources are read often, else that of
// memory. Related work: GE-SpMM's coarsened warps, Sputnik's order by length and subwarp per row, RoDe's cut of long
// rows.
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

// Minimum resident blocks per multiprocessor, for __launch_bounds__: the largest number for which the compiler does not
// spill in a loop.
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
  // The next kernel, FinishSplitRows or another, waits for the sums itself.
  TriggerNextLaunch();
  if (params.work.condition.flag != nullptr) AwaitPreviousKernels();
  if (!Holds(params.work.condition)) return;
  __shared__ Staged<Layout, Mode> staged[kBlockWarps];
  const Lane<Layout> at(blockIdx.y);
  const char* src = at.Source(params);
  const uint32_t bundle = blockIdx.x * kBlockWarps + at.warp;
  if (bundle >= params.work.num_bundles) return;
  int slot = at.lane % Layout::kItems;
  // Some modes load items a second time, from the L1 cache. The empty asm hides from the compiler that they are the
  // same: keeping them through the loops of long rows would cost registers that the kernel needs.
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

// One file per mode, so that they compile in parallel. A row has `lanes` lanes (4, 8, 16 or more), which load `vec`
// elements at a time: 1, 4 or, with 2 bytes, 8.
cudaError_t LaunchPlainSum(const RowsParams& params, int vec, int lanes, const LaunchTarget& target);
cudaError_t LaunchWeightedSum(const RowsParams& params, int vec, int lanes, const LaunchTarget& target);
cudaError_t LaunchExtremum(const RowsParams& params, int vec, int lanes, const LaunchTarget& target);
cudaError_t LaunchNarrow(const RowsParams& params, bool weighted, int vec, int lanes, const LaunchTarget& target);
// Sums followed by a product, in float32. `lanes` (4, 8 or 16) lanes hold all columns, 4 each. The second function does
// the same for split rows.
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

// For work lists with blocks and short rows in place of bundles.
template <class Element, class Mode>
cudaError_t LaunchSmall(const RowsParams& params, int lanes, const LaunchTarget& target) {
  if (lanes <= 4) return LaunchSmallLanes<Element, 4, 4, Mode>(params, target);
  if (lanes <= 8) return LaunchSmallLanes<Element, 4, 8, Mode>(params, target);
  if (lanes <= 16) return LaunchSmallLanes<Element, 4, 16, Mode>(params, target);
  return LaunchSmallLanes<Element, 4, 32, Mode>(params, target);
}

// Layouts of float32 rows.
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

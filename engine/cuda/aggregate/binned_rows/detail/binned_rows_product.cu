// SPDX-License-Identifier: Apache-2.0
// binned_rows followed by a product (row_product.cuh). There are few layouts, as only narrow rows gain: no wide
// bundles, and kernels for simple epilogues only for unweighted sums, which GCN needs.
#include "engine/cuda/aggregate/binned_rows/detail/binned_rows.cuh"

namespace vicinal::cuda {
namespace {

template <int kLanes, bool kSimple>
using ProductLayout = RowLayout<float, 4, kLanes, kSimple, kBundleItems, /*kProduct=*/true>;

template <int kLanes, bool kSimple, class Mode>
cudaError_t LaunchLayout(const RowsParams& params, const LaunchTarget& target) {
  using Layout = ProductLayout<kLanes, kSimple>;
  return params.work.num_short + params.work.num_blocks > 0 ? LaunchSmallLayout<Layout, Mode>(params, target)
                                                            : LaunchRowLayout<Layout, Mode>(params, target);
}

template <bool kSimple, class Mode>
cudaError_t LaunchMode(const RowsParams& params, int lanes, const LaunchTarget& target) {
  if (lanes <= 4) return LaunchLayout<4, kSimple, Mode>(params, target);
  if (lanes <= 8) return LaunchLayout<8, kSimple, Mode>(params, target);
  return LaunchLayout<16, kSimple, Mode>(params, target);
}

// A block per split row: each thread computes one column of the row's result, then the block multiplies the row.
__global__ void __launch_bounds__(kMaxProductInputs)
    MultiplySplitRows(const __grid_constant__ RowsParams params, const SplitRows splits) {
  TriggerNextLaunch();
  __shared__ float4 row[kMaxProductInputs / 4];
  const SplitRow split = splits.rows[blockIdx.x];
  const int col = static_cast<int>(threadIdx.x);
  const Finish finish = FinishOfSplit(params, split);
  AwaitPreviousKernels();
  if (!Holds(params.work.condition)) return;
  float x = 0.0f;
  if (col < params.out.dst.cols) x = ResultOfParts<1>(params, split, finish, splits.parts_are_quads, col).v[0];
  reinterpret_cast<float*>(row)[col] = x;
  __syncthreads();
  const int rows[1] = {split.row};
  MultiplyShare<1, 0>(params.out.product, row, rows, col, static_cast<int>(kMaxProductInputs));
}

}  // namespace

cudaError_t LaunchProduct(const RowsParams& params, int lanes, const LaunchTarget& target) {
  if (params.out.extremum()) return LaunchMode<false, Extremum>(params, lanes, target);
  if (params.source.weights != nullptr) return LaunchMode<false, WeightedSum>(params, lanes, target);
  return params.out.simple() ? LaunchMode<true, PlainSum>(params, lanes, target)
                             : LaunchMode<false, PlainSum>(params, lanes, target);
}

cudaError_t LaunchMultiplySplitRows(const RowsParams& params, const SplitRows& splits, const LaunchTarget& target) {
  return LaunchOverlapping(target.limits.overlapping_launches(), MultiplySplitRows,
                           dim3(static_cast<unsigned>(splits.count)), kMaxProductInputs, target.stream, params, splits);
}

}  // namespace vicinal::cuda

// SPDX-License-Identifier: Apache-2.0
// binned_rows with a product at its end (row_product.cuh). Few layouts, for it is the narrow ones that pay: without
// wide bundles, and kernels for simple results for unweighted sums alone, which is what GCN's are.
#include "engine/cuda/aggregate/binned_rows/detail/binned_rows.cuh"

namespace vicinal::cuda {
namespace {

template <int kLanes, bool kSimple>
using ProductLayout = RowLayout<float, 4, kLanes, kSimple, kBundleItems, /*kProduct=*/true>;

template <int kLanes, bool kSimple, class Mode>
cudaError_t LaunchLayout(const RowsParams& params, cudaStream_t stream) {
  using Layout = ProductLayout<kLanes, kSimple>;
  return params.num_short + params.num_blocks > 0 ? LaunchSmallLayout<Layout, Mode>(params, stream)
                                                  : LaunchRowLayout<Layout, Mode>(params, stream);
}

template <bool kSimple, class Mode>
cudaError_t LaunchMode(const RowsParams& params, int lanes, cudaStream_t stream) {
  if (lanes <= 4) return LaunchLayout<4, kSimple, Mode>(params, stream);
  if (lanes <= 8) return LaunchLayout<8, kSimple, Mode>(params, stream);
  return LaunchLayout<16, kSimple, Mode>(params, stream);
}

// A block makes a row's results, one to a thread, and multiplies them.
__global__ void __launch_bounds__(kMaxProductInputs)
    MultiplySplitRows(const __grid_constant__ RowsParams params, const SplitRows splits) {
  LetNextBegin();
  __shared__ float4 row[kMaxProductInputs / 4];
  const SplitRow split = splits.rows[blockIdx.x];
  const int col = static_cast<int>(threadIdx.x);
  const Finish finish = FinishOfSplit(params, split);
  AwaitFormer();
  if (!Holds(params.condition)) return;
  float x = 0.0f;
  if (col < params.dst.cols) x = ResultOfParts<1>(params, split, finish, splits.parts_are_quads, col).v[0];
  reinterpret_cast<float*>(row)[col] = x;
  __syncthreads();
  const int rows[1] = {split.row};
  MultiplyShare<1, 0>(params.product, row, rows, col, static_cast<int>(kMaxProductInputs));
}

}  // namespace

cudaError_t LaunchProduct(const RowsParams& params, int lanes, cudaStream_t stream) {
  if (params.extremum) return LaunchMode<false, Extremum>(params, lanes, stream);
  if (params.weights != nullptr) return LaunchMode<false, WeightedSum>(params, lanes, stream);
  return params.simple ? LaunchMode<true, PlainSum>(params, lanes, stream)
                       : LaunchMode<false, PlainSum>(params, lanes, stream);
}

cudaError_t LaunchMultiplySplitRows(const RowsParams& params, const SplitRows& splits, cudaStream_t stream) {
  return LaunchOverlapping(true, MultiplySplitRows, dim3(static_cast<unsigned>(splits.count)), kMaxProductInputs,
                           stream, params, splits);
}

}  // namespace vicinal::cuda

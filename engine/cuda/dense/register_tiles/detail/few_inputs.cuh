// SPDX-License-Identifier: Apache-2.0
// The kernel of register_tiles for few inputs, few columns and not many rows: a thread per element, without shared
// memory.
#ifndef VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_FEW_INPUTS_CUH_
#define VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_FEW_INPUTS_CUH_

#include <cstdint>

#include "engine/cuda/dense/register_tiles/detail/tiles.cuh"

namespace vicinal::cuda {

// kCols adjacent lanes compute a row. REQUIRES: in_width <= kFoldInputs, so there is one fold.
template <int kCols>
__global__ void __launch_bounds__(128) DenseFewInputs(const __grid_constant__ DenseParams params) {
  TriggerNextLaunch();
  constexpr int kAhead = 16;
  const int64_t row = int64_t{blockIdx.x} * (128 / kCols) + threadIdx.x / kCols;
  const int64_t col = threadIdx.x % kCols;
  if (row >= params.out.dst.rows || col >= params.out.dst.cols) return;
  const float* src = params.source.rows.data + row * params.source.rows.stride;
  const int count = static_cast<int>(params.source.in_width);
  // Weights exist before the rows that the preceding kernel computes, so they are loaded first.
  float w[kAhead];
  const auto load_weights = [&](int k) {
    const float* weight = params.source.weight + k * params.source.weight_stride + col;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) w[i] = k + i < count ? __ldg(weight + i * params.source.weight_stride) : 0.0f;
  };
  load_weights(0);
  AwaitPreviousKernels();
  const EpilogueTerms terms = TermsOf(params.out.epilogue, row, col);
  float sum = 0.0f;
  for (int k = 0; k < count; k += kAhead) {
    if (k > 0) load_weights(k);
    float a[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) a[i] = k + i < count ? src[k + i] : 0.0f;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) sum = fmaf(a[i], w[i], sum);
  }
  // Adding the fold to a total of 0 turns -0 into 0, as in the other kernels.
  params.out.dst.data[row * params.out.dst.stride + col] = ApplyEpilogue(params.out.epilogue, terms, 0.0f + sum);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_FEW_INPUTS_CUH_

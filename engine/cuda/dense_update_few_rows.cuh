// SPDX-License-Identifier: Apache-2.0
// The kernels of dense_update for few rows, where latency is all that counts, and for few inputs.
//
// Few rows. A block makes 8 rows and kCols columns; its warps share out the inputs, kFoldInputs at a time, and their
// sums are added in order: the same chain for every element as in dense_update_tiles.cuh, evaluated in parallel. A warp
// reads its weights straight from memory (the L2 cache holds them), 16 inputs on their way at once, and its rows'
// inputs through shared memory.
//
// Few inputs and columns: a thread per element, with nothing in between.
#ifndef VICINAL_ENGINE_CUDA_DENSE_UPDATE_FEW_ROWS_CUH_
#define VICINAL_ENGINE_CUDA_DENSE_UPDATE_FEW_ROWS_CUH_

#include <cstdint>

#include "engine/cuda/dense_update_tiles.cuh"

namespace vicinal::cuda {

inline constexpr int kFewRowsPerBlock = 8;
inline constexpr int kFewRowsWarps = 8;  // at most; no more than there are folds

// kCols lanes (8, 16 or 32) side by side have a column each; the other lanes of a warp take other rows.
template <int kCols>
__global__ void __launch_bounds__(32 * kFewRowsWarps) DenseFewRows(const __grid_constant__ DenseParams params) {
  constexpr int kRows = kFewRowsPerBlock, kThreadRows = kRows * kCols / 32, kAhead = 16;
  __shared__ float inputs[kFewRowsWarps][kRows][kFoldInputs];
  __shared__ float sums[kFewRowsWarps][kRows][kCols];
  __shared__ float totals[kRows][kCols];
  const int64_t across = (params.dst.cols + kCols - 1) / kCols;
  const int64_t row0 = blockIdx.x / across * kRows, col0 = blockIdx.x % across * kCols;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int my_row = lane / kCols * kThreadRows, my_col = lane % kCols;
  const float* weight = params.weight + min(col0 + my_col, params.weight_stride - 1);
  for (int e = threadIdx.x; e < kRows * kCols; e += blockDim.x) totals[e / kCols][e % kCols] = 0.0f;
  for (int64_t round = 0; round < params.in_width; round += int64_t{warps} * kFoldInputs) {
    const int64_t k0 = round + warp * kFoldInputs;
    const int count = static_cast<int>(max(min(params.in_width - k0, int64_t{kFoldInputs}), int64_t{0}));
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int k = lane; k < kFoldInputs; k += 32) {
        const bool inside = row0 + r < params.dst.rows && k < count;
        const float* from = inside ? params.src.data + (row0 + r) * params.src.stride + k0 + k : params.src.data;
        CopyAsync<4>(&inputs[warp][r][k], from, inside ? 4 : 0);
      }
    }
    CommitCopies();
    float sum[kThreadRows] = {};
    for (int k = 0; k < count; k += kAhead) {
      float w[kAhead];
      // Beyond the last input the last one's weight stands in, and is multiplied by zero.
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        w[i] = __ldg(weight + min(k0 + k + i, params.in_width - 1) * params.weight_stride);
      }
      if (k == 0) {
        AwaitCopies<0>();
        __syncwarp();
      }
#pragma unroll
      for (int i = 0; i < kAhead; i += 4) {
#pragma unroll
        for (int r = 0; r < kThreadRows; ++r) {
          const Pack<4> a = LoadShared<4>(&inputs[warp][my_row + r][k + i]);
#pragma unroll
          for (int v = 0; v < 4; ++v) sum[r] = fmaf(a.v[v], w[i + v], sum[r]);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) sums[warp][my_row + r][my_col] = sum[r];
    __syncthreads();
    for (int e = threadIdx.x; e < kRows * kCols; e += blockDim.x) {
      float total = totals[e / kCols][e % kCols];
      for (int w = 0; w < warps; ++w) {
        if (round + w * kFoldInputs < params.in_width) total += sums[w][e / kCols][e % kCols];
      }
      totals[e / kCols][e % kCols] = total;
    }
    __syncthreads();
  }
  for (int e = threadIdx.x; e < kRows * kCols; e += blockDim.x) {
    const int64_t row = row0 + e / kCols, col = col0 + e % kCols;
    if (row >= params.dst.rows || col >= params.dst.cols) continue;
    params.dst.data[row * params.dst.stride + col] =
        ApplyEpilogue(params.epilogue, totals[e / kCols][e % kCols], row, col);
  }
}

// kCols lanes side by side make a row. REQUIRES: in_width <= kFoldInputs, one fold.
template <int kCols>
__global__ void __launch_bounds__(128) DenseFewInputs(const __grid_constant__ DenseParams params) {
  constexpr int kAhead = 16;
  const int64_t row = int64_t{blockIdx.x} * (128 / kCols) + threadIdx.x / kCols;
  const int64_t col = threadIdx.x % kCols;
  if (row >= params.dst.rows || col >= params.dst.cols) return;
  const float* src = params.src.data + row * params.src.stride;
  const float* weight = params.weight + col;
  const int count = static_cast<int>(params.in_width);
  float sum = 0.0f;
  for (int k = 0; k < count; k += kAhead) {
    float a[kAhead], w[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const bool inside = k + i < count;
      a[i] = inside ? __ldg(src + k + i) : 0.0f;
      w[i] = inside ? __ldg(weight + (k + i) * params.weight_stride) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) sum = fmaf(a[i], w[i], sum);
  }
  // The fold's addition to a total of zero, for its sign.
  params.dst.data[row * params.dst.stride + col] = ApplyEpilogue(params.epilogue, 0.0f + sum, row, col);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_UPDATE_FEW_ROWS_CUH_

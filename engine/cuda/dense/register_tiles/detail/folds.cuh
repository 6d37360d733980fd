// SPDX-License-Identifier: Apache-2.0
// The mapping of lanes, the inner product and the store of the kernels of register_tiles that split a row's folds among
// warps (staged.cuh, rounds.cuh).
#ifndef VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_FOLDS_CUH_
#define VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_FOLDS_CUH_

#include <cstdint>

#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/pack.cuh"
#include "engine/cuda/dense/register_tiles/detail/tiles.cuh"

namespace vicinal::cuda {

// 4 lanes down, 4 across, two folds. A warp's 16-byte load from shared memory takes half as long if adjacent lanes, or
// all lanes 2 apart, read the same address. The loads of rows have the former property, those of columns the latter.
struct FoldLane {
  int row, col, fold;

  __device__ explicit FoldLane(int lane)
      : row(lane / 2 % 2 + lane / 8 % 2 * 2), col(lane % 2 + lane / 4 % 2 * 2), fold(lane / 16) {}
};

// Adds the products of four inputs, which `rows` holds for the thread's rows. `weights` points to the thread's first
// column (it has 4 of every 16) of the first of these inputs in shared memory; inputs are T::kCols apart.
template <class T>
__device__ inline void MultiplyFourInputs(const Pack<4> (&rows)[T::kThreadRows], const float* weights,
                                          float (&sum)[T::kThreadRows][T::kPacks][4]) {
#pragma unroll
  for (int s = 0; s < 4; ++s) {
#pragma unroll
    for (int p = 0; p < T::kPacks; ++p) {
      const Pack<4> w = LoadShared<4>(weights + s * T::kCols + p * 16);
#pragma unroll
      for (int i = 0; i < T::kThreadRows; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][p][j] = fmaf(rows[i].v[s], w.v[j], sum[i][p][j]);
      }
    }
  }
}

// Applies the epilogue to kVec adjacent columns of a row and stores them, as far as they exist.
template <int kVec>
__device__ inline void StoreSums(const DenseParams& params, int64_t row, int64_t col, const Pack<kVec>& sums) {
  if (row >= params.out.dst.rows || col >= params.out.dst.cols) return;
  if (!params.out.light() || params.out.rare_activation) {
    StoreWithEpilogue<kVec>(&params, row, col, sums);
    return;
  }
  float* const dst = params.out.dst.data + row * params.out.dst.stride + col;
#pragma unroll
  for (int v = 0; v < kVec; ++v) {
    if (col + v >= params.out.dst.cols) break;
    float x = sums.v[v];
    if (params.out.epilogue.bias != nullptr) x += __ldg(params.out.epilogue.bias + col + v);
    if (params.out.epilogue.activation.kind == ActivationKind::kRelu) x = Rectified(x);
    dst[v] = x;
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_FOLDS_CUH_

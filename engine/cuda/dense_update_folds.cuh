// SPDX-License-Identifier: Apache-2.0
// Where the lanes of a warp stand in the kernels of dense_update that share out a row's folds among warps
// (dense_update_staged.cuh, dense_update_rounds.cuh).
#ifndef VICINAL_ENGINE_CUDA_DENSE_UPDATE_FOLDS_CUH_
#define VICINAL_ENGINE_CUDA_DENSE_UPDATE_FOLDS_CUH_

namespace vicinal::cuda {

// 4 lanes down, 4 across, two folds. A 16-byte load of shared memory by a warp takes half as long where lanes 1 apart,
// or all lanes 2 apart, read the same: the former in what rows are read of, the latter in columns.
struct FoldLane {
  int row, col, fold;

  __device__ explicit FoldLane(int lane)
      : row(lane / 2 % 2 + lane / 8 % 2 * 2), col(lane % 2 + lane / 4 % 2 * 2), fold(lane / 16) {}
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_UPDATE_FOLDS_CUH_

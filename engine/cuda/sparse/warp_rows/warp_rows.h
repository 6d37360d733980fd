// SPDX-License-Identifier: Apache-2.0
// The launcher of warp_rows, free of device code. The idea is in warp_rows.cu.
#ifndef VICINAL_ENGINE_CUDA_SPARSE_WARP_ROWS_WARP_ROWS_H_
#define VICINAL_ENGINE_CUDA_SPARSE_WARP_ROWS_WARP_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Maximum columns that a warp computes at once.
inline constexpr int64_t kMaxSparseUpdateWidth = 128;

// Weights are packed as by CudaWeightedKernel (cuda_kernel.h). REQUIRES: out_width <= kMaxSparseUpdateWidth.
cudaError_t LaunchSparseUpdate(const SparseUpdateArgs& args, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_SPARSE_WARP_ROWS_WARP_ROWS_H_

// SPDX-License-Identifier: Apache-2.0
// The launcher of the product of sparse rows with weights (warp_rows.cu), free of device code.
#ifndef VICINAL_ENGINE_CUDA_SPARSE_WARP_ROWS_WARP_ROWS_H_
#define VICINAL_ENGINE_CUDA_SPARSE_WARP_ROWS_WARP_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Columns that a warp makes at once.
inline constexpr int64_t kMaxSparseUpdateWidth = 128;

// Weights as for LaunchDenseUpdate. REQUIRES: out_width <= kMaxSparseUpdateWidth.
cudaError_t LaunchSparseUpdate(const SparseUpdateArgs& args, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_SPARSE_WARP_ROWS_WARP_ROWS_H_

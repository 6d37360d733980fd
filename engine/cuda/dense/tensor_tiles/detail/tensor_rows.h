// SPDX-License-Identifier: Apache-2.0
// The launcher of tensor_tiles for weights that stay in shared memory. The idea is in tensor_rows.cu.
#ifndef VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_DETAIL_TENSOR_ROWS_H_
#define VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_DETAIL_TENSOR_ROWS_H_

#include <cuda_runtime_api.h>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

struct TensorParams;

// True if the kernel can run on this GPU and the weights of 16 columns fit next to two boxes of rows.
bool TensorRowsFit(const DenseUpdateProblem& problem, const GpuLimits& limits);

// REQUIRES: TensorRowsFit, params.src_access == Access::kPacks.
cudaError_t LaunchTensorRows(const DenseUpdateProblem& problem, const TensorParams& params, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_DETAIL_TENSOR_ROWS_H_

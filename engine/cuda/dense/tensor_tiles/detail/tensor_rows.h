// SPDX-License-Identifier: Apache-2.0
// The launcher of tensor_tiles where weights stay in shared memory (tensor_rows.cu has the idea).
#ifndef VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_DETAIL_TENSOR_ROWS_H_
#define VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_DETAIL_TENSOR_ROWS_H_

#include <cuda_runtime_api.h>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

struct TensorParams;

// Whether the kernel can run there and the weights of 16 columns have room beside two boxes of rows.
bool TensorRowsFit(const DenseUpdateProblem& problem, const GpuLimits& limits);

// REQUIRES: TensorRowsFit, params.src_access == Access::kPacks.
cudaError_t LaunchTensorRows(const DenseUpdateProblem& problem, const TensorParams& params, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_DETAIL_TENSOR_ROWS_H_

// SPDX-License-Identifier: Apache-2.0
// The launcher of tensor_tiles where weights stay in shared memory (tensor_rows.cu has the idea).
#ifndef VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_DETAIL_TENSOR_ROWS_H_
#define VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_DETAIL_TENSOR_ROWS_H_

#include <cuda_runtime_api.h>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

struct TensorParams;

// REQUIRES: TensorWeightsStay, params.src_access == Access::kPacks.
cudaError_t LaunchTensorRows(const DenseUpdateProblem& problem, const TensorParams& params, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_DETAIL_TENSOR_ROWS_H_

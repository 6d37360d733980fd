// SPDX-License-Identifier: Apache-2.0
// The launcher of dense products on tensor cores, whose factors are rounded: for requests that allow it.
#ifndef VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_TENSOR_TILES_H_
#define VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_TENSOR_TILES_H_

#include <cuda_runtime_api.h>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// True if the largest shared memory has room for the weights of 16 columns, so that they are read once.
bool TensorWeightsStay(const DenseUpdateProblem& problem);

// REQUIRES: a precision other than float32. `args.weight` is packed (dense/packed_weights.h).
cudaError_t LaunchTensorTiles(const DenseUpdateArgs& args, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_TENSOR_TILES_H_

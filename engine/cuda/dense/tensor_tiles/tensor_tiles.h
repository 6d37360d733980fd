// SPDX-License-Identifier: Apache-2.0
// The launcher of tensor_tiles, free of device code. The idea is in tensor_tiles.cu.
#ifndef VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_TENSOR_TILES_H_
#define VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_TENSOR_TILES_H_

#include <cuda_runtime_api.h>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// True if the largest shared memory of any GPU has room for the weights of 16 columns, so that each block reads them
// once.
bool TensorWeightsStay(const DenseUpdateProblem& problem);

// REQUIRES: a precision other than float32. `args.weight` is packed (dense/packed_weights.h).
cudaError_t LaunchTensorTiles(const DenseUpdateArgs& args, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_TENSOR_TILES_H_

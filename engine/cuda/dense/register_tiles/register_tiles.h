// SPDX-License-Identifier: Apache-2.0
// The launcher of register_tiles, free of device code. The idea is in register_tiles.cu.
#ifndef VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_REGISTER_TILES_H_
#define VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_REGISTER_TILES_H_

#include <cuda_runtime_api.h>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// REQUIRES: `args.weight` is packed (dense/packed_weights.h).
cudaError_t LaunchDenseUpdate(const DenseUpdateArgs& args, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_REGISTER_TILES_H_

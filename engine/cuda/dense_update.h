// SPDX-License-Identifier: Apache-2.0
// The launcher of the dense product and the packed form of its weights, free of device code.
#ifndef VICINAL_ENGINE_CUDA_DENSE_UPDATE_H_
#define VICINAL_ENGINE_CUDA_DENSE_UPDATE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// W [H, F] is packed as its transpose [F, H], rows padded with zeros to a multiple of 4 floats: aligned 16-byte loads
// along the outputs.
inline int64_t PackedStride(int64_t out_width) { return (out_width + 3) / 4 * 4; }

cudaError_t LaunchDenseUpdate(const DenseUpdateArgs& args, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_UPDATE_H_

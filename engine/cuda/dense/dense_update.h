// SPDX-License-Identifier: Apache-2.0
// The launcher of the dense product and the packed form of its weights, free of device code.
#ifndef VICINAL_ENGINE_CUDA_DENSE_DENSE_UPDATE_H_
#define VICINAL_ENGINE_CUDA_DENSE_DENSE_UPDATE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Inputs added up before they go to the total: part of what defines the bits of a result.
inline constexpr int kFoldInputs = 64;

// W [H, F] is packed as its transpose [F, H], rows padded with zeros to PackedStride(H): aligned 16-byte loads along
// the outputs. Rows of zeros make the last fold whole: no load of a weight needs to ask whether it is there.
inline int64_t DensePackedFloats(int64_t out_width, int64_t in_width) {
  return PackedStride(out_width) * RoundUp(in_width, kFoldInputs);
}

cudaError_t LaunchDenseUpdate(const DenseUpdateArgs& args, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_DENSE_UPDATE_H_

// SPDX-License-Identifier: Apache-2.0
// The packed form of the weights of a dense product, free of device code.
#ifndef VICINAL_ENGINE_CUDA_DENSE_PACKED_WEIGHTS_H_
#define VICINAL_ENGINE_CUDA_DENSE_PACKED_WEIGHTS_H_

#include <cstdint>

#include "engine/cuda/common/alignment.h"

namespace vicinal::cuda {

// Inputs added up before they go to the total: part of what defines the bits of a result.
inline constexpr int kFoldInputs = 64;

// W [H, F] is packed as its transpose [F, H], rows padded with zeros to PackedStride(H): aligned 16-byte loads along
// the outputs. Rows of zeros make the last fold whole: no load of a weight needs to ask whether it is there.
inline int64_t DensePackedFloats(int64_t out_width, int64_t in_width) {
  return PackedStride(out_width) * RoundUp(in_width, kFoldInputs);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_PACKED_WEIGHTS_H_

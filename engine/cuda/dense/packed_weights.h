// SPDX-License-Identifier: Apache-2.0
// The packed form of the weights of a dense product, free of device code.
#ifndef VICINAL_ENGINE_CUDA_DENSE_PACKED_WEIGHTS_H_
#define VICINAL_ENGINE_CUDA_DENSE_PACKED_WEIGHTS_H_

#include <cstdint>

#include "engine/cuda/common/alignment.h"

namespace vicinal::cuda {

// Inputs per fold: products are summed fold by fold, and each fold is then added to the total. Part of the order of
// evaluation, so it determines a result's bits.
inline constexpr int kFoldInputs = 64;

// W [H, F] is packed as its transpose [F, H], with rows padded with zeros to PackedStride(H): loads along the outputs
// are aligned to 16 bytes. Rows of zeros complete the last fold, so that loads of weights need no bounds check.
inline int64_t DensePackedFloats(int64_t out_width, int64_t in_width) {
  return PackedStride(out_width) * RoundUp(in_width, kFoldInputs);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_PACKED_WEIGHTS_H_

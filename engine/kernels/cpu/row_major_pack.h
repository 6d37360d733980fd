// SPDX-License-Identifier: Apache-2.0
// Weights for kernels that gather rows of W^T by input: [F, H padded to 16], so that every row begins at a cache line.
#ifndef VICINAL_ENGINE_KERNELS_CPU_ROW_MAJOR_PACK_H_
#define VICINAL_ENGINE_KERNELS_CPU_ROW_MAJOR_PACK_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/device/views.h"

namespace vicinal::internal {

inline int64_t PaddedOutputs(int64_t out_width) { return (out_width + 15) / 16 * 16; }

inline size_t TransposedBytes(int64_t out_width, int64_t in_width) {
  return static_cast<size_t>(PaddedOutputs(out_width)) * static_cast<size_t>(in_width) * sizeof(float);
}

// W [H, F] -> W^T [F, padded H], zeros in the padding.
inline void PackTransposed(ConstMatrixView weight, void* packed) {
  if (weight.rows == 0 || weight.cols == 0) return;
  float* out = static_cast<float*>(packed);
  const int64_t padded = PaddedOutputs(weight.rows);
  std::memset(out, 0, TransposedBytes(weight.rows, weight.cols));
  for (int64_t h = 0; h < weight.rows; ++h) {
    for (int64_t f = 0; f < weight.cols; ++f) out[f * padded + h] = weight.row(h)[f];
  }
}

// The packed weights as a matrix for gathering rows.
inline ConstMatrixView TransposedView(const void* packed, int64_t out_width, int64_t in_width) {
  return {static_cast<const float*>(packed), in_width, out_width, PaddedOutputs(out_width)};
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_ROW_MAJOR_PACK_H_

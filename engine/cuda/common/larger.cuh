// SPDX-License-Identifier: Apache-2.0
// The larger of two numbers, or NaN if either is NaN, as in PyTorch. (fmaxf and fmax drop NaN.)
#ifndef VICINAL_ENGINE_CUDA_COMMON_LARGER_CUH_
#define VICINAL_ENGINE_CUDA_COMMON_LARGER_CUH_

#include <cmath>

#include "engine/base/vocabulary.h"
#include "engine/cuda/common/hardware.h"

namespace vicinal::cuda {

// True for a maximum or a minimum. Kernels compute a minimum as the negated maximum of negated messages.
__host__ __device__ inline bool IsExtreme(Reduce reduce) { return reduce == Reduce::kMax || reduce == Reduce::kMin; }

__device__ inline float LargerOf(float a, float b) {
  if constexpr (kCompiledFor < kAsyncCopies) {
    return a > b || std::isnan(a) ? a : std::isnan(b) ? b : fmaxf(a, b);
  } else {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
  }
}
__device__ inline double LargerOf(double a, double b) { return a > b || std::isnan(a) ? a : b; }

// Computes both and selects one. To select first would be a branch, as the maximum is opaque to the compiler.
__device__ inline float SumOrLarger(bool larger, float a, float b) {
  const float sum = a + b, largest = LargerOf(a, b);
  return larger ? largest : sum;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_LARGER_CUH_

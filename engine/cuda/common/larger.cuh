// SPDX-License-Identifier: Apache-2.0
// The larger of two numbers, and NaN where either is one, so that it does not vanish in a maximum: as PyTorch has it,
// other than fmaxf and fmax.
#ifndef VICINAL_ENGINE_CUDA_COMMON_LARGER_CUH_
#define VICINAL_ENGINE_CUDA_COMMON_LARGER_CUH_

#include <cmath>

#include "engine/base/vocabulary.h"

namespace vicinal::cuda {

// Whether what is reduced is compared, not added. Minima are maxima of what is negated.
__host__ __device__ inline bool IsExtreme(Reduce reduce) { return reduce == Reduce::kMax || reduce == Reduce::kMin; }

__device__ inline float LargerOf(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}
__device__ inline double LargerOf(double a, double b) { return a > b || std::isnan(a) ? a : b; }

// Both are made and one is taken: to choose first would be a branch, for the compiler does not look into the maximum.
__device__ inline float SumOrLarger(bool larger, float a, float b) {
  const float sum = a + b, largest = LargerOf(a, b);
  return larger ? largest : sum;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_LARGER_CUH_

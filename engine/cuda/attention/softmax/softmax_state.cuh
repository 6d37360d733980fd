// SPDX-License-Identifier: Apache-2.0
// Softmax in powers of two. The exponential of a score is share * 2^whole, with a share near 1 and an integer `whole`.
// Sums are relative to 2^shift, where shift is the largest `whole` so far. Raising the shift multiplies sums by a power
// of two, which is exact. So sums do not depend on when the shift was raised, and may be merged in any layout. (Online
// softmax, Milakov and Gimelshein 2018, has a shift that is not a power of two.) Scores and their logarithms are held
// in two floats each: rounding a score of 80 to one float would cost five digits of its exponential.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_SOFTMAX_SOFTMAX_STATE_CUH_
#define VICINAL_ENGINE_CUDA_ATTENTION_SOFTMAX_SOFTMAX_STATE_CUH_

#include "engine/cuda/attention/softmax/score_factors.h"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/common/warp_extremes.cuh"

namespace vicinal::cuda {

// Lower than any score's `whole`, and finite.
inline constexpr float kNoScore = -3.0e38f;

struct Exponential {
  float share;  // between 0.7 and 1.5
  float whole;
};

// exp(factor * (a + b)), with the factor for the sign of a + b. Takes one instruction of the special function unit. NaN
// gives a share of NaN.
__device__ inline Exponential ExponentialOf(float a, float b, const ScoreFactors& factors) {
  constexpr float kLargest = 2.0e38f;  // times log2(e) still finite
  const float sum = __fadd_rn(a, b);
  const float b_part = __fsub_rn(sum, a);
  const float sum_low = __fadd_rn(__fsub_rn(a, __fsub_rn(sum, b_part)), __fsub_rn(b, b_part));
  const float score = fminf(fmaxf(sum, -kLargest), kLargest);
  const float factor = score < 0.0f ? factors.below : factors.above;
  const float factor_low = score < 0.0f ? factors.below_low : factors.above_low;
  const float power = __fmul_rn(score, factor);
  const float power_low = __fadd_rn(fmaf(score, factor, -power), fmaf(score, factor_low, sum_low * factor));
  const float nearest = rintf(power);
  const float rest = __fadd_rn(__fsub_rn(power, nearest), power_low);
  const float carry = rintf(rest);
  Exponential result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result.share) : "f"(__fsub_rn(rest, carry)));
  result.whole = __fadd_rn(nearest, carry);
  return result;
}

// 2^whole for an integer that is at most 0; 0 if the result is not a normal float.
__device__ inline float PowerOfTwo(float whole) {
  return whole < -126.0f ? 0.0f : __int_as_float((static_cast<int>(whole) + 127) << 23);
}

// The largest x of each group of kLanes adjacent lanes, returned in all of them. To be called by the whole warp.
// REQUIRES: no x is NaN.
template <int kLanes>
__device__ inline float LargestOf(float x) {
  if constexpr (kLanes == 32) {
    const int bits = __float_as_int(x);
    const int largest = WarpMax(bits ^ (bits >> 31 & 0x7fffffff));
    return __int_as_float(largest ^ (largest >> 31 & 0x7fffffff));
  } else {
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      x = fmaxf(x, __shfl_xor_sync(kWholeWarp, x, distance));
    }
    return x;
  }
}

__device__ inline float LeakyRelu(float x, float slope) { return x < 0.0f ? slope * x : x; }

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_SOFTMAX_SOFTMAX_STATE_CUH_

// SPDX-License-Identifier: Apache-2.0
// A softmax-weighted sum on the way (online softmax: Milakov and Gimelshein 2018): after any edges, sum = sum of
// exp(score - shift) * x and denominator = sum of exp(score - shift), with shift the largest score so far. One
// exponential per edge. Two states can be merged; the merge rounds the same way whichever of the two comes first, so
// lanes that merge with each other agree.
#ifndef VICINAL_ENGINE_CUDA_SOFTMAX_STATE_CUH_
#define VICINAL_ENGINE_CUDA_SOFTMAX_STATE_CUH_

#include "engine/cuda/pack.cuh"

namespace vicinal::cuda {

// Lower than any score, and finite: two empty states merge to an empty one, not to NaN.
inline constexpr float kNoScore = -3.0e38f;

template <int kVec, int kPacks>
struct SoftmaxState {
  float shift;
  float denominator;
  Pack<kVec> sum[kPacks];

  __device__ void Clear() {
    shift = kNoScore;
    denominator = 0.0f;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) sum[p] = Pack<kVec>::Filled(0.0f);
  }

  __device__ void Add(float score, const Pack<kVec> (&x)[kPacks]) {
    const float difference = score - shift;
    const float small = expf(-fabsf(difference));
    const bool larger = difference > 0.0f;
    const float keep = larger ? small : 1.0f, share = larger ? 1.0f : small;
    shift = larger ? score : shift;
    denominator = fmaf(denominator, keep, share);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int v = 0; v < kVec; ++v) sum[p].v[v] = fmaf(share, x[p].v[v], sum[p].v[v] * keep);
    }
  }

  __device__ void Merge(const SoftmaxState& other) {
    const float top = fmaxf(shift, other.shift);
    const float mine = expf(shift - top), theirs = expf(other.shift - top);
    shift = top;
    denominator = __fadd_rn(__fmul_rn(denominator, mine), __fmul_rn(other.denominator, theirs));
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int v = 0; v < kVec; ++v) {
        sum[p].v[v] = __fadd_rn(__fmul_rn(sum[p].v[v], mine), __fmul_rn(other.sum[p].v[v], theirs));
      }
    }
  }

  // The state of the lane `distance` away.
  __device__ SoftmaxState FromLane(unsigned mask, int distance) const {
    SoftmaxState other;
    other.shift = __shfl_xor_sync(mask, shift, distance);
    other.denominator = __shfl_xor_sync(mask, denominator, distance);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int v = 0; v < kVec; ++v) other.sum[p].v[v] = __shfl_xor_sync(mask, sum[p].v[v], distance);
    }
    return other;
  }
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_SOFTMAX_STATE_CUH_

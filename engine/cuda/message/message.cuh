// SPDX-License-Identifier: Apache-2.0
// The common parts of the message kernels (FeatGraph's templates). Every message of u and v is fma(u, factor, term),
// with a factor and a term that depend on v alone. Every reduction is a sum or a maximum, possibly of negated messages.
// So a template is instantiated by two numbers per column instead of code, held in registers over a target's edges.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_MESSAGE_CUH_
#define VICINAL_ENGINE_CUDA_MESSAGE_MESSAGE_CUH_

#include <cmath>
#include <cstdint>

#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/larger.cuh"
#include "engine/cuda/common/pack.cuh"

namespace vicinal::cuda {

// A target's part of its messages, for a pack of columns.
template <int kVec>
struct TargetTerms {
  Pack<kVec> factor, term;

  __device__ TargetTerms() : factor(Pack<kVec>::Filled(1.0f)), term(Pack<kVec>::Filled(0.0f)) {}
  // v: the target's row at these columns, ignored for kSource.
  __device__ TargetTerms(Message message, const float* v) : TargetTerms() {
    if (message == Message::kSource) return;
    const Pack<kVec> row = LoadReadOnly<kVec>(v);
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      if (message == Message::kMultiply) {
        factor.v[i] = row.v[i];
      } else {
        term.v[i] = message == Message::kSubtract ? -row.v[i] : row.v[i];
      }
    }
  }
  __device__ float Of(float u, int i) const { return fmaf(u, factor.v[i], term.v[i]); }
};

template <bool kExtreme>
struct Reducer {
  __device__ static float Identity() { return kExtreme ? -INFINITY : 0.0f; }
  __device__ static float Combine(float a, float b) { return kExtreme ? LargerOf(a, b) : a + b; }
  // Minima are maxima of negated messages.
  __device__ static float Sign(Reduce reduce) { return reduce == Reduce::kMin ? -1.0f : 1.0f; }
  // The result of a row of `edges` edges.
  __device__ static float Finish(Reduce reduce, float reduced, int64_t edges) {
    if (edges == 0) return 0.0f;
    if (reduce == Reduce::kMean) return __fdiv_rn(reduced, static_cast<float>(edges));
    return kExtreme ? reduced * Sign(reduce) : reduced;
  }
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_MESSAGE_CUH_

// SPDX-License-Identifier: Apache-2.0
// Products of a short row x, as of one edge's features, with a matrix: a few vectors of columns at a time, which share
// each number of x and read neighbouring lines of the matrix.
// Compiled once per instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_FEATURE_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_FEATURE_TERMS_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_FEATURE_TERMS_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_FEATURE_TERMS_INL_H_
#endif

#include "engine/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

inline constexpr int kTermVectors = 4;

// The columns of N vectors from `p` on, `last_count` in the last.
template <int N>
VICINAL_INLINE VF LoadVector(const float* p, int n, int64_t last_count) {
  return LoadSome(p + n * kLanes, n + 1 < N ? kLanes : last_count);
}

// Adds x [width] times rows of `weight`, `stride` apart, to N vectors of terms, one number of x after the other.
template <int N>
VICINAL_INLINE void AddTerms(const float* x, int64_t width, const float* weight, int64_t stride, int64_t last_count,
                             VF* terms) {
  for (int64_t a = 0; a < width; ++a, weight += stride) {
    const VF factor = hn::Set(Floats(), x[a]);
    VICINAL_UNROLL
    for (int n = 0; n < N; ++n) terms[n] = hn::MulAdd(factor, LoadVector<N>(weight, n, last_count), terms[n]);
  }
}

// Calls use(terms, c, count) for vectors of `columns` columns of that product: `count` of them from c on.
template <class Use>
VICINAL_INLINE void ForEachTerm(const float* x, int64_t width, const float* weight, int64_t stride, int64_t columns,
                                const Use& use) {
  int64_t c = 0;
  for (; c + kTermVectors * kLanes <= columns; c += kTermVectors * kLanes) {
    VF terms[kTermVectors];
    VICINAL_UNROLL
    for (int n = 0; n < kTermVectors; ++n) terms[n] = hn::Zero(Floats());
    AddTerms<kTermVectors>(x, width, weight + c, stride, kLanes, terms);
    VICINAL_UNROLL
    for (int n = 0; n < kTermVectors; ++n) use(terms[n], c + n * kLanes, kLanes);
  }
  for (; c < columns; c += kLanes) {
    VF term = hn::Zero(Floats());
    AddTerms<1>(x, width, weight + c, stride, columns - c, &term);
    use(term, c, columns - c);
  }
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_FEATURE_TERMS_INL_H_

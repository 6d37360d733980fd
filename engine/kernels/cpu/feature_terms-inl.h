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

// `start` (null: zeros) plus x [width] times a matrix of `width` rows, `stride` apart.
struct RowProduct {
  const float* x;
  int64_t width;
  const float* weight;
  int64_t stride;
  const float* start = nullptr;
};

// N vectors of it from column `col` on, `last_count` columns in the last: one number of x after the other.
template <int N>
VICINAL_INLINE void TermsAt(const RowProduct& product, int64_t col, int64_t last_count, VF* terms) {
  const Floats d;
  VICINAL_UNROLL
  for (int n = 0; n < N; ++n) {
    terms[n] = product.start != nullptr ? LoadVector<N>(product.start + col, n, last_count) : hn::Zero(d);
  }
  for (int64_t a = 0; a < product.width; ++a) {
    const float* weight = product.weight + a * product.stride + col;
    const VF factor = hn::Set(d, product.x[a]);
    VICINAL_UNROLL
    for (int n = 0; n < N; ++n) terms[n] = hn::MulAdd(factor, LoadVector<N>(weight, n, last_count), terms[n]);
  }
}

// Calls use(term, c, count) for all its vectors, of `columns` columns: `count` of them from c on.
template <class Use>
VICINAL_INLINE void ForEachTerm(const RowProduct& product, int64_t columns, const Use& use) {
  VF terms[kTermVectors];
  int64_t c = 0;
  for (; c + kTermVectors * kLanes <= columns; c += kTermVectors * kLanes) {
    TermsAt<kTermVectors>(product, c, kLanes, terms);
    VICINAL_UNROLL
    for (int n = 0; n < kTermVectors; ++n) use(terms[n], c + n * kLanes, kLanes);
  }
  for (; c < columns; c += kLanes) {
    TermsAt<1>(product, c, columns - c, terms);
    use(terms[0], c, columns - c);
  }
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_FEATURE_TERMS_INL_H_

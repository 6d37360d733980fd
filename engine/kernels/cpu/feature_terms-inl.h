// SPDX-License-Identifier: Apache-2.0
// Products of one edge's features with W^T [A, columns], a few vectors of columns at a time, which share each feature.
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

// Adds features [A] times rows of `weight` to N vectors of terms, feature by feature. Rows are `columns` apart.
template <int N>
VICINAL_INLINE void AddFeatureTerms(const float* features, int64_t width, const float* weight, int64_t columns,
                                    int64_t last_count, VF* terms) {
  for (int64_t a = 0; a < width; ++a, weight += columns) {
    const VF feature = hn::Set(Floats(), features[a]);
    VICINAL_UNROLL
    for (int n = 0; n < N; ++n) terms[n] = hn::MulAdd(feature, LoadVector<N>(weight, n, last_count), terms[n]);
  }
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_FEATURE_TERMS_INL_H_

// SPDX-License-Identifier: Apache-2.0
// Building blocks of work on edges: messages from u and v, and sums or extremes that keep NaN. Compiled once per
// instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_MESSAGE_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_MESSAGE_VECTOR_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_MESSAGE_VECTOR_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_MESSAGE_VECTOR_INL_H_
#endif

#include <cmath>

#include "engine/kernels/cpu/extremum-inl.h"
#include "engine/kernels/cpu/feature_terms-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

// The operation on u: three for four messages, because u - v and u + (-v) have equal bits.
enum class WithTarget { kNothing, kAdd, kMultiply };

VICINAL_INLINE WithTarget WithTargetOf(Message message) {
  if (message == Message::kSource) return WithTarget::kNothing;
  return message == Message::kMultiply ? WithTarget::kMultiply : WithTarget::kAdd;
}

// `count` columns of a target's row, as MessageOf wants them.
template <WithTarget kWith>
VICINAL_INLINE VF LoadTarget(Message message, const float* v, int64_t count) {
  if (kWith == WithTarget::kNothing) return hn::Zero(Floats());
  const VF x = LoadSome(v, count);
  return kWith == WithTarget::kAdd && message == Message::kSubtract ? hn::Neg(x) : x;
}

template <WithTarget kWith>
VICINAL_INLINE VF MessageOf(VF u, VF v) {
  return kWith == WithTarget::kNothing ? u : kWith == WithTarget::kAdd ? hn::Add(u, v) : hn::Mul(u, v);
}

// What an edge's `features` add to its message, or to z, of `columns` columns.
VICINAL_INLINE RowProduct FeatureProductOf(const MessageReduceArgs& args, const float* features, int64_t columns) {
  if (args.edge_weight == nullptr) return {features, 0, nullptr, 0, features};
  return {features, args.problem.edge_width, args.edge_weight, columns, args.edge_bias};
}

// Features of an edge whose terms are summed before they are added to the total.
inline constexpr int64_t kFoldFeatures = 64;

// The Gaussians of an edge's `features`, whole vectors of them, in `out`.
VICINAL_INLINE void GaussiansOf(const MessageReduceArgs& args, const float* features, float* out) {
  const Floats d;
  const int64_t count = args.problem.gaussians, width = args.problem.edge_width;
  for (int64_t k = 0; k < count; k += kLanes) {
    const float *mean = args.gaussian_mean + k, *scale = args.gaussian_scale + k;
    VF total = hn::Zero(d);
    for (int64_t first = 0; first < width; first += kFoldFeatures) {
      VF sum = hn::Zero(d);
      const int64_t end = Smaller(width, first + kFoldFeatures);
      for (int64_t a = first; a < end; ++a, mean += count, scale += count) {
        const VF difference = hn::Sub(hn::Set(d, features[a]), LoadSome(mean, count - k));
        sum = hn::MulAdd(hn::Mul(difference, difference), LoadSome(scale, count - k), sum);
      }
      total = hn::Add(total, sum);
    }
    hn::StoreU(Exp(total), d, out + k);
  }
}

// How a row's messages become one: minima are maxima of negated numbers.
enum class RowReduction { kSum, kExtreme, kSoftmax };

// A softmax-weighted sum so far, of one vector of columns: weights are relative to the largest score.
struct SoftmaxSum {
  VF largest, weights, sum;

  static VICINAL_INLINE SoftmaxSum Start() {
    return {hn::Set(Floats(), -HUGE_VALF), hn::Zero(Floats()), hn::Zero(Floats())};
  }
  // Joins another one, with one exponential. NaN stays: it is in no comparison true, and e is NaN then.
  VICINAL_INLINE void Join(const SoftmaxSum& other) {
    const Floats d;
    const VF one = hn::Set(d, 1.0f), difference = hn::Sub(other.largest, largest);
    const VF e = Exp(hn::Neg(hn::Abs(difference)));
    const auto higher = hn::Gt(difference, hn::Zero(d));
    const VF mine = hn::IfThenElse(higher, e, one), theirs = hn::IfThenElse(higher, one, e);
    largest = hn::IfThenElse(higher, other.largest, largest);
    weights = hn::MulAdd(weights, mine, hn::Mul(other.weights, theirs));
    sum = hn::MulAdd(sum, mine, hn::Mul(other.sum, theirs));
  }
  // REQUIRES: at least one was joined.
  VICINAL_INLINE VF Result() const { return hn::Div(sum, weights); }
};

// Sum, or maximum. Minima are maxima of negated numbers, which is exact.
template <bool kExtreme>
struct Reducer {
  static VICINAL_INLINE VF Start() { return kExtreme ? hn::Set(Floats(), -HUGE_VALF) : hn::Zero(Floats()); }
  static VICINAL_INLINE VF Join(VF so_far, VF x) {
    return kExtreme ? ExtremeOf<Reduce::kMax>(so_far, x) : hn::Add(so_far, x);
  }
};

// The mask whose bits turn x into the maximised value.
VICINAL_INLINE VF FlipOf(Reduce reduce) {
  return reduce == Reduce::kMin ? hn::Set(Floats(), -0.0f) : hn::Zero(Floats());
}

// The input of the epilogue: `acc` is the sum of a row's messages, or the maximum of their values with flipped bits.
VICINAL_INLINE VF ReducedOf(const MessageReduceArgs& args, int64_t degree, VF acc) {
  const Reduce reduce = args.problem.reduce;
  if (degree == 0) return hn::Zero(Floats());
  if (reduce == Reduce::kMean) return hn::Div(acc, hn::Set(Floats(), static_cast<float>(degree)));
  return reduce == Reduce::kMin ? hn::Xor(acc, FlipOf(reduce)) : acc;
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_MESSAGE_VECTOR_INL_H_

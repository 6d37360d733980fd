// SPDX-License-Identifier: Apache-2.0
// Sums across the lanes of many vectors at once: kLanes vectors in, one vector of their sums out, for three operations
// per sum, where summing each alone takes about ten. Every sum is evaluated in the same order for each of the vectors,
// so that bits do not depend on the position. Compiled once per instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_LANE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_LANE_SUMS_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_LANE_SUMS_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_LANE_SUMS_INL_H_
#endif

#include "engine/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
// Of four vectors at `in`: lane i of each block of four lanes is the sum of that block of vector i.
VICINAL_INLINE VF SumsOfBlocks(const float* in) {
  const Floats d;
  const hn::RepartitionToWide<Floats> pairs;
  const VF a = hn::Load(d, in), b = hn::Load(d, in + kLanes), c = hn::Load(d, in + 2 * kLanes),
           e = hn::Load(d, in + 3 * kLanes);
  const auto ab = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  return hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)),
                 hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)));
}
#endif

// Lane i: the sum of the lanes of vector i of the kLanes vectors at `in`, which is aligned.
VICINAL_INLINE VF SumsOfVectors(const float* in) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Load(Floats(), in);
#elif HWY_CAP_GE512
  const Floats d;
  const VF first = SumsOfBlocks(in), second = SumsOfBlocks(in + 4 * kLanes), third = SumsOfBlocks(in + 8 * kLanes),
           fourth = SumsOfBlocks(in + 12 * kLanes);
  // Blocks of `even`: halves of first, first, third, third; `odd`: of second and fourth.
  const VF even = hn::Add(hn::ConcatLowerLower(d, third, first), hn::ConcatUpperUpper(d, third, first));
  const VF odd = hn::Add(hn::ConcatLowerLower(d, fourth, second), hn::ConcatUpperUpper(d, fourth, second));
  return hn::OddEvenBlocks(hn::Add(odd, hn::SwapAdjacentBlocks(odd)), hn::Add(even, hn::SwapAdjacentBlocks(even)));
#elif HWY_CAP_GE256
  const Floats d;
  const VF low = SumsOfBlocks(in), high = SumsOfBlocks(in + 4 * kLanes);
  return hn::Add(hn::ConcatLowerLower(d, high, low), hn::ConcatUpperUpper(d, high, low));
#else
  return SumsOfBlocks(in);
#endif
}

// Collects vectors until the lanes of as many as a vector has can be summed together. Call Flush at the end.
class LaneSums {
 public:
  LaneSums() {
    for (float& partial : partial_) partial = 0;
  }
  // The sum of the lanes of `partial` goes to `to`, at the latest with Flush.
  VICINAL_INLINE void Add(VF partial, float* to) {
    hn::Store(partial, Floats(), partial_ + held_ * kLanes);
    to_[held_] = to;
    if (++held_ == kLanes) Flush();
  }
  HWY_NOINLINE void Flush() {
    HWY_ALIGN float sums[kLanes];
    hn::Store(SumsOfVectors(partial_), Floats(), sums);
    for (int64_t l = 0; l < held_; ++l) *to_[l] = sums[l];
    held_ = 0;
  }

 private:
  int64_t held_ = 0;
  float* to_[kLanes];
  HWY_ALIGN float partial_[kLanes * kLanes];
};

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_LANE_SUMS_INL_H_

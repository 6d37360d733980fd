// SPDX-License-Identifier: Apache-2.0
// float32 rounded to bfloat16 or IEEE float16: to nearest even, overflow to infinity, NaN kept. Integer arithmetic, the
// same on every instruction set. Compiled once per instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_TO_SIXTEEN_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_TO_SIXTEEN_BITS_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_TO_SIXTEEN_BITS_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_TO_SIXTEEN_BITS_INL_H_
#endif

#include "engine/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

using Words = hn::RebindToUnsigned<Floats>;
using VWord = hn::Vec<Words>;

// Drops the lowest kBits of x, rounding to nearest even.
template <int kBits>
VICINAL_INLINE VWord RoundOff(VWord x) {
  const Words d;
  const VWord odd = hn::And(hn::ShiftRight<kBits>(x), hn::Set(d, 1u));
  return hn::ShiftRight<kBits>(hn::Add(hn::Add(x, hn::Set(d, (1u << (kBits - 1)) - 1)), odd));
}

VICINAL_INLINE VWord ToBfloat16(VF x) {
  const Words d;
  const VWord bits = hn::BitCast(d, x);
  // A NaN is truncated and made quiet; rounding could carry it into infinity or beyond.
  const VWord quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d, 0x40u));
  return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(x)), quiet, RoundOff<16>(bits));
}

VICINAL_INLINE VWord ToFloat16(VF x) {
  const Words d;
  const Floats df;
  const VF size = hn::Abs(x);
  const VWord sizes = hn::BitCast(d, size), sign = hn::ShiftRight<16>(hn::Xor(hn::BitCast(d, x), sizes));
  // From 2^-14 on: the exponent's bias changes from 127 to 15; values that round above 65504 become infinity.
  const VWord normal = RoundOff<13>(hn::Sub(sizes, hn::Set(d, 112u << 23)));
  // Below: adding 1/2 puts the subnormal's bits, rounded, into the lowest bits of the sum.
  const VWord small = hn::Sub(hn::BitCast(d, hn::Add(size, hn::Set(df, 0.5f))), hn::Set(d, 126u << 23));
  const VWord nan = hn::Or(hn::And(hn::ShiftRight<13>(sizes), hn::Set(d, 0x3FFu)), hn::Set(d, 0x7E00u));
  VWord result = hn::IfThenElse(hn::RebindMask(d, hn::Lt(size, hn::Set(df, 0x1p-14f))), small, normal);
  result = hn::IfThenElse(hn::RebindMask(d, hn::Ge(size, hn::Set(df, 65536.0f))), hn::Set(d, 0x7C00u), result);
  return hn::Or(sign, hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(x)), nan, result));
}

template <Storage kStorage>
VICINAL_INLINE VWord ToSixteenBits(VF x) {
  static_assert(kStorage != Storage::kFloat32);
  return kStorage == Storage::kBfloat16 ? ToBfloat16(x) : ToFloat16(x);
}

// The first `count` words, each below 2^16.
VICINAL_INLINE void StoreSome16(VWord words, uint16_t* p, int64_t count) {
  const hn::Rebind<uint16_t, Floats> d16;
  const auto narrow = hn::DemoteTo(d16, hn::BitCast(Ints(), words));
  if (count >= kLanes) {
    hn::StoreU(narrow, d16, p);
    return;
  }
  HWY_ALIGN uint16_t lanes[kLanes < 8 ? 8 : kLanes];
  hn::Store(narrow, d16, lanes);
  for (int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_TO_SIXTEEN_BITS_INL_H_

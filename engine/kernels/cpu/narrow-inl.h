// SPDX-License-Identifier: Apache-2.0
// Loads of a vector or a part of it from float32, bfloat16 or float16 storage, widened to float32 without rounding. No
// byte beyond the part is touched; `mask` holds its first `count` lanes, made once outside loops. Compiled once per
// instruction set, hence the guard that toggles.
#if defined(VICINAL_ENGINE_KERNELS_CPU_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_NARROW_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_NARROW_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_NARROW_INL_H_
#endif

#include "engine/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

using Halves = hn::Rebind<uint16_t, Floats>;

// Elements in memory, and a vector of them as float32.
template <Storage kStorage>
struct Stored {
  using Element = uint16_t;

  static VICINAL_INLINE VF Widen(hn::Vec<Halves> v) {
    if constexpr (kStorage == Storage::kBfloat16) {
      return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(hn::Rebind<uint32_t, Floats>(), v)));
    } else {
      const VF x = hn::PromoteTo(Floats(), hn::BitCast(hn::Rebind<hwy::float16_t, Floats>(), v));
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_ARCH_ARM_A64
      return x;
#else
      // Without a conversion instruction, Highway treats infinity and NaN as numbers.
      const hn::RebindToUnsigned<Floats> words;
      const auto highest = hn::Set(words, 0x7c00u);
      const auto not_finite = hn::Eq(hn::And(hn::PromoteTo(words, v), highest), highest);
      const auto exponent = hn::IfThenElseZero(not_finite, hn::Set(words, 0x7f800000u));
      return hn::BitCast(Floats(), hn::Or(hn::BitCast(words, x), exponent));
#endif
    }
  }
  static VICINAL_INLINE VF Load(const uint16_t* p) { return Widen(hn::LoadU(Halves(), p)); }
  static VICINAL_INLINE VF LoadPart(const uint16_t* p, int64_t count, hn::Mask<Floats>) {
    const Halves d;
#if HWY_TARGET == HWY_AVX3
    return Widen(hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, p));
#else
    HWY_ALIGN uint16_t lanes[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
    return Widen(hn::Load(d, lanes));
#endif
  }
};

template <>
struct Stored<Storage::kFloat32> {
  using Element = float;

  static VICINAL_INLINE VF Load(const float* p) { return hn::LoadU(Floats(), p); }
  static VICINAL_INLINE VF LoadPart(const float* p, int64_t count, hn::Mask<Floats> mask) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    (void)count;
    return hn::MaskedLoad(mask, Floats(), p);
#else
    (void)mask;
    return HWY_NAMESPACE::LoadPart(p, count);
#endif
  }
};

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_NARROW_INL_H_

// SPDX-License-Identifier: Apache-2.0
// Building blocks of the vectorised kernels: loads and stores of part of a vector that touch no byte beyond,
// exponentials accurate to a few units in the last place that propagate NaN and infinity, activations, and the epilogue
// of one vector. Compiled once per instruction set (Highway's foreach_target), hence the guard that toggles.
#if defined(VICINAL_ENGINE_KERNELS_CPU_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_VECTOR_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_VECTOR_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_VECTOR_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "engine/kernels/cpu/simd_targets.h"
#include "engine/kernels/operations.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using VF = hn::Vec<Floats>;
inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Floats()));

VICINAL_INLINE int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
VICINAL_INLINE int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// The first `count` < kLanes lanes from p, zeros beyond. Masked loads of AVX2 and later do not access masked elements;
// other targets use the stack.
VICINAL_INLINE VF LoadPart(const float* p, int64_t count) {
  const Floats d;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, p);
#else
  HWY_ALIGN float lanes[kLanes] = {};
  // The second bound is for compilers, which do not see who calls.
  for (int64_t i = 0; i < count && i < kLanes - 1; ++i) lanes[i] = p[i];
  return hn::Load(d, lanes);
#endif
}

VICINAL_INLINE VF LoadSome(const float* p, int64_t count) {
  return count >= kLanes ? hn::LoadU(Floats(), p) : LoadPart(p, count);
}

VICINAL_INLINE void StoreSome(VF v, float* p, int64_t count) {
  const Floats d;
  if (count >= kLanes) {
    hn::StoreU(v, d, p);
    return;
  }
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, p);
#else
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, d, lanes);
  for (int64_t i = 0; i < count; ++i) p[i] = lanes[i];
#endif
}

// 2^n for n in [-126, 127].
VICINAL_INLINE VF PowerOfTwo(hn::Vec<Ints> n) {
  return hn::BitCast(Floats(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(Ints(), 127))));
}

// x = n ln 2 + r with |r| <= ln 2 / 2; returns e^r - 1 (Taylor to r^7: the rest is below 2^-27 of it) and sets n.
VICINAL_INLINE VF ReducedExpm1(VF x, hn::Vec<Ints>* n) {
  const Floats d;
  const VF rounded = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504088896341f)));
  VF r = hn::NegMulAdd(rounded, hn::Set(d, 0.693359375f), x);  // exact: the constant has 10 bits
  r = hn::NegMulAdd(rounded, hn::Set(d, -2.12194440054690583e-4f), r);
  VF p = hn::Set(d, 1.0f / 5040);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  *n = hn::ConvertTo(Ints(), rounded);
  return hn::MulAdd(hn::Mul(r, r), p, r);
}

// e^x; the scaling in two steps reaches subnormal results and infinity.
VICINAL_INLINE VF Exp(VF x) {
  const Floats d;
  hn::Vec<Ints> n;
  const VF p = ReducedExpm1(hn::Min(hn::Max(x, hn::Set(d, -110.0f)), hn::Set(d, 89.0f)), &n);
  const hn::Vec<Ints> half = hn::ShiftRight<1>(n);
  const VF y = hn::Mul(hn::MulAdd(p, PowerOfTwo(half), PowerOfTwo(half)), PowerOfTwo(hn::Sub(n, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// e^x - 1 without cancellation near 0; x <= 88.
VICINAL_INLINE VF Expm1(VF x) {
  const Floats d;
  hn::Vec<Ints> n;
  const VF p = ReducedExpm1(hn::Min(hn::Max(x, hn::Set(d, -80.0f)), hn::Set(d, 88.0f)), &n);
  const VF scale = PowerOfTwo(n);
  const VF y = hn::MulAdd(p, scale, hn::Sub(scale, hn::Set(d, 1.0f)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// tanh |x| = m / (m + 2) with m = e^(2|x|) - 1; beyond 10 it is 1 in float32.
VICINAL_INLINE VF Tanh(VF x) {
  const Floats d;
  const VF m = Expm1(hn::Min(hn::Set(d, 20.0f), hn::Mul(hn::Set(d, 2.0f), hn::Abs(x))));
  const VF y = hn::CopySign(hn::Div(m, hn::Add(m, hn::Set(d, 2.0f))), x);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// log(1 + e^x), x above `threshold`: max(x, 0) + log(1 + u) with u = e^-|x|, and log(1 + u) = 2 artanh(u / (2 + u)).
VICINAL_INLINE VF Softplus(VF x, VF threshold) {
  const Floats d;
  const VF u = Exp(hn::Neg(hn::Abs(x)));
  const VF s = hn::Div(u, hn::Add(u, hn::Set(d, 2.0f))), q = hn::Mul(s, s);
  // artanh(s) / s for s <= 1 / 3, within 2^-27.
  VF p = hn::Set(d, 0.140788886f);
  p = hn::MulAdd(p, q, hn::Set(d, 0.139825790f));
  p = hn::MulAdd(p, q, hn::Set(d, 0.200122980f));
  p = hn::MulAdd(p, q, hn::Set(d, 0.333331610f));
  p = hn::MulAdd(p, q, hn::Set(d, 1.0f));
  const VF y = hn::MulAdd(hn::Add(s, s), p, hn::Max(hn::Zero(d), x));
  return hn::IfThenElse(hn::Gt(x, threshold), x, y);
}

// x P(X < x) of a standard normal X. For a = |x|, P(X > a) = e^(-a^2 / 2) t p(t) with t = 1 / (1 + 0.3 a) and a
// polynomial p, fitted to a relative error of 2^-27 for a <= 14.5; beyond, it is 0 in float32. The rounding error of
// a^2 / 2 is compensated.
VICINAL_INLINE VF Gelu(VF x) {
  const Floats d;
  const VF a = hn::Min(hn::Set(d, 15.0f), hn::Abs(x)), half = hn::Mul(hn::Set(d, 0.5f), a);
  const VF t = hn::Div(hn::Set(d, 1.0f), hn::MulAdd(hn::Set(d, 0.3f), a, hn::Set(d, 1.0f)));
  const VF u = hn::Sub(t, hn::Set(d, 0.5f));
  VF p = hn::Set(d, -0.0209560245f);
  p = hn::MulAdd(p, u, hn::Set(d, 0.0199553445f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.0359011851f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.0365209244f));
  p = hn::MulAdd(p, u, hn::Set(d, -0.0775413886f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.0290600993f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.222082049f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.346198767f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.329158992f));
  p = hn::MulAdd(p, u, hn::Set(d, 0.221970618f));
  const VF square = hn::Mul(half, a), rest = hn::MulSub(half, a, square);
  const VF e = Exp(hn::Neg(square));
  const VF tail = hn::Mul(hn::NegMulAdd(rest, e, e), hn::Mul(t, p));
  return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail)));
}

// tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2), which is 1 in float32 beyond 20.
VICINAL_INLINE VF Mish(VF x) {
  const Floats d;
  const VF e = Exp(hn::Min(hn::Set(d, 20.0f), x)), n = hn::Mul(e, hn::Add(e, hn::Set(d, 2.0f)));
  return hn::Mul(x, hn::Div(n, hn::Add(n, hn::Set(d, 2.0f))));
}

// NaN must be the second operand of Max and Min, which x86 returns.
VICINAL_INLINE VF Clamp(VF x, float low, float high) {
  return hn::Min(hn::Set(Floats(), high), hn::Max(hn::Set(Floats(), low), x));
}

VICINAL_INLINE VF HardSigmoid(VF x) {
  const Floats d;
  return hn::Mul(hn::Set(d, 1.0f / 6), Clamp(hn::Add(x, hn::Set(d, 3.0f)), 0.0f, 6.0f));
}

VICINAL_INLINE VF LeakyRelu(VF x, VF slope) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(Floats())), hn::Mul(x, slope), x);
}

// All but ReLU and LeakyReLU. Out of line: the exponentials would otherwise be copied into every loop that stores.
static HWY_NOINLINE HWY_MAYBE_UNUSED VF ActivateRarely(VF x, Activation activation) {
  const Floats d;
  switch (activation.kind) {
    case ActivationKind::kElu:
      return hn::IfThenElse(hn::Lt(x, hn::Zero(d)),
                            hn::Mul(hn::Set(d, activation.slope), Expm1(hn::Min(hn::Zero(d), x))), x);
    case ActivationKind::kSigmoid:
      return hn::Div(hn::Set(d, 1.0f), hn::Add(hn::Set(d, 1.0f), Exp(hn::Neg(x))));
    case ActivationKind::kTanh:
      return Tanh(x);
    case ActivationKind::kSilu:
      return hn::Div(x, hn::Add(hn::Set(d, 1.0f), Exp(hn::Neg(x))));
    case ActivationKind::kGelu:
      return Gelu(x);
    case ActivationKind::kGeluTanh: {
      // The exponent, 2 sqrt(2 / pi) (x + 0.044715 x^3), with its sign changed.
      const VF exponent = hn::Mul(x, hn::NegMulSub(hn::Set(d, 0.0713548163f), hn::Mul(x, x), hn::Set(d, 1.59576912f)));
      return hn::Div(x, hn::Add(hn::Set(d, 1.0f), Exp(exponent)));
    }
    case ActivationKind::kSoftplus:
      return Softplus(x, hn::Set(d, activation.slope));
    case ActivationKind::kMish:
      return Mish(x);
    case ActivationKind::kSoftsign:
      return hn::Div(x, hn::Add(hn::Set(d, 1.0f), hn::Abs(x)));
    case ActivationKind::kClamp:
      return Clamp(x, activation.slope, activation.limit);
    case ActivationKind::kThreshold:
      return hn::IfThenElse(hn::Le(x, hn::Set(d, activation.slope)), hn::Set(d, activation.limit), x);
    case ActivationKind::kHardSigmoid:
      return HardSigmoid(x);
    case ActivationKind::kHardSwish:
      return hn::Mul(x, HardSigmoid(x));
    case ActivationKind::kHardShrink:
      return hn::IfThenZeroElse(hn::Le(hn::Abs(x), hn::Set(d, activation.slope)), x);
    case ActivationKind::kExp:
      return Exp(x);
    case ActivationKind::kRoot:
      return hn::Sqrt(hn::Add(x, hn::Set(d, activation.slope)));
    case ActivationKind::kInverseRoot:
      return hn::Div(hn::Set(d, 1.0f), hn::Sqrt(hn::Add(x, hn::Set(d, activation.slope))));
    case ActivationKind::kSquare:
      return hn::Mul(x, x);
    default:
      return x;
  }
}

VICINAL_INLINE VF Activate(VF x, Activation activation) {
  switch (activation.kind) {
    case ActivationKind::kNone:
      return x;
    // The order of operands keeps NaN: x86 returns the second operand if either is NaN.
    case ActivationKind::kRelu:
      return hn::Max(hn::Zero(Floats()), x);
    case ActivationKind::kLeakyRelu:
      return LeakyRelu(x, hn::Set(Floats(), activation.slope));
    default:
      return ActivateRarely(x, activation);
  }
}

// The epilogue for the `count` columns from `col` on of row `row`.
VICINAL_INLINE VF Finish(VF v, const Epilogue& epilogue, int64_t row, int64_t col, int64_t count) {
  if (epilogue.row_scale != nullptr) {
    v = hn::Mul(hn::Set(Floats(), epilogue.scale * epilogue.row_scale[row]), v);
  } else if (epilogue.scale != 1.0f) {
    v = hn::Mul(hn::Set(Floats(), epilogue.scale), v);
  }
  if (epilogue.bias != nullptr) v = hn::Add(v, LoadSome(epilogue.bias + col, count));
  if (!epilogue.residual.empty()) {
    v = hn::MulAdd(hn::Set(Floats(), epilogue.residual_scale), LoadSome(epilogue.residual.row(row) + col, count), v);
  }
  return Activate(v, epilogue.activation);
}

// The same for N vectors of one row from column `col` on, the last with `last_count` columns: each part of the epilogue
// is tested once per row, not once per vector.
template <int N>
VICINAL_INLINE void FinishRow(VF* v, const Epilogue& epilogue, int64_t row, int64_t col, int64_t last_count) {
  const Floats d;
  if (epilogue.row_scale != nullptr || epilogue.scale != 1.0f) {
    const VF scale =
        hn::Set(d, epilogue.row_scale != nullptr ? epilogue.scale * epilogue.row_scale[row] : epilogue.scale);
    VICINAL_UNROLL
    for (int i = 0; i < N; ++i) v[i] = hn::Mul(scale, v[i]);
  }
  if (epilogue.bias != nullptr) {
    VICINAL_UNROLL
    for (int i = 0; i < N; ++i) {
      v[i] = hn::Add(v[i], LoadSome(epilogue.bias + col + i * kLanes, i + 1 < N ? kLanes : last_count));
    }
  }
  if (!epilogue.residual.empty()) {
    const VF scale = hn::Set(d, epilogue.residual_scale);
    const float* residual = epilogue.residual.row(row) + col;
    VICINAL_UNROLL
    for (int i = 0; i < N; ++i) {
      v[i] = hn::MulAdd(scale, LoadSome(residual + i * kLanes, i + 1 < N ? kLanes : last_count), v[i]);
    }
  }
  // Must be unrolled everywhere: if v were indexed by a variable, it would live in memory.
  const Activation activation = epilogue.activation;
  switch (activation.kind) {
    case ActivationKind::kNone:
      return;
    case ActivationKind::kRelu:
      VICINAL_UNROLL
      for (int i = 0; i < N; ++i) v[i] = hn::Max(hn::Zero(d), v[i]);
      return;
    case ActivationKind::kLeakyRelu:
      VICINAL_UNROLL
      for (int i = 0; i < N; ++i) v[i] = LeakyRelu(v[i], hn::Set(d, activation.slope));
      return;
    default:
      VICINAL_UNROLL
      for (int i = 0; i < N; ++i) v[i] = ActivateRarely(v[i], activation);
  }
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_VECTOR_INL_H_

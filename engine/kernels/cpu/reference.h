// SPDX-License-Identifier: Apache-2.0
// Shared by the reference kernels: the epilogue of one element, in double precision. The reference kernels are
// single-threaded scalar loops with double accumulators, written for clarity and never the fastest.
#ifndef VICINAL_ENGINE_KERNELS_CPU_REFERENCE_H_
#define VICINAL_ENGINE_KERNELS_CPU_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "engine/kernels/kernel.h"

namespace vicinal::internal {

inline double ReferenceActivate(const Activation& activation, double x) {
  switch (activation.kind) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kRelu:
      return x < 0 ? 0 : x;
    case ActivationKind::kElu:
      return x < 0 ? activation.slope * std::expm1(x) : x;
    case ActivationKind::kLeakyRelu:
      return x < 0 ? activation.slope * x : x;
    case ActivationKind::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case ActivationKind::kTanh:
      return std::tanh(x);
    case ActivationKind::kSilu:
      return x / (1 + std::exp(-x));
    case ActivationKind::kGelu:
      return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    case ActivationKind::kGeluTanh:
      return x / (1 + std::exp(-std::sqrt(8 / M_PI) * (x + 0.044715 * x * x * x)));
    case ActivationKind::kSoftplus:
      return x > activation.slope ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case ActivationKind::kMish:
      return x * std::tanh(x > 40 ? x : std::log1p(std::exp(x)));
    case ActivationKind::kSoftsign:
      return x / (1 + std::abs(x));
    case ActivationKind::kClamp:
      return x < activation.slope ? activation.slope : x > activation.limit ? activation.limit : x;
    case ActivationKind::kThreshold:
      return x <= activation.slope ? activation.limit : x;
    case ActivationKind::kHardSigmoid:
      return x < -3 ? 0 : x > 3 ? 1 : (x + 3) / 6;
    case ActivationKind::kHardSwish:
      return x * (x < -3 ? 0 : x > 3 ? 1 : (x + 3) / 6);
    case ActivationKind::kHardShrink:
      return std::abs(x) <= activation.slope ? 0 : x;
    case ActivationKind::kExp:
      return std::exp(x);
    case ActivationKind::kRoot:
      return std::sqrt(x + activation.slope);
    case ActivationKind::kInverseRoot:
      return 1 / std::sqrt(x + activation.slope);
    case ActivationKind::kSquare:
      return x * x;
  }
  return x;
}

// The larger (kMax) or smaller (kMin) of two; NaN if either is.
inline double ReferenceExtreme(Reduce reduce, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return reduce == Reduce::kMin ? std::min(a, b) : std::max(a, b);
}

// Adds a term to a sum or an extreme.
inline double ReferenceJoin(Reduce reduce, double a, double b) {
  return reduce == Reduce::kMax || reduce == Reduce::kMin ? ReferenceExtreme(reduce, a, b) : a + b;
}

// activation(scale * row_scale * result + bias + residual_scale * residual) for the element (row, col) of dst.
inline float ReferenceEpilogue(const Epilogue& epilogue, double result, int64_t row, int64_t col) {
  result *= static_cast<double>(epilogue.scale) * (epilogue.row_scale != nullptr ? epilogue.row_scale[row] : 1.0f);
  if (epilogue.bias != nullptr) result += epilogue.bias[col];
  if (!epilogue.residual.empty())
    result += static_cast<double>(epilogue.residual_scale) * epilogue.residual.row(row)[col];
  return static_cast<float>(ReferenceActivate(epilogue.activation, result));
}

// The value of a bfloat16: the upper half of a float32.
inline float FromBfloat16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// The value of an IEEE float16, exactly.
inline float FromFloat16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  if (exponent == 31) return fraction != 0 ? std::nanf("") : sign * HUGE_VALF;
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

// The common part of all reference kernels.
template <class Base>
class ReferenceKernel : public Base {
 public:
  std::string_view name() const override { return "reference"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"double_precision", 1}; }
  bool fallback_only() const override { return true; }
  Refusal WhyUnsupported(const typename Base::Problem&) const override { return {}; }
};

// The packed form of the reference kernels is W itself, without gaps between rows.
template <class Base>
class ReferenceWeighted : public ReferenceKernel<Base> {
 public:
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return static_cast<size_t>(out_width) * static_cast<size_t>(in_width) * sizeof(float);
  }
  void Pack(ConstMatrixView weight, void* packed) const override {
    if (weight.rows == 0 || weight.cols == 0) return;
    for (int64_t h = 0; h < weight.rows; ++h) {
      std::memcpy(static_cast<float*>(packed) + h * weight.cols, weight.row(h), weight.cols * sizeof(float));
    }
  }
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_REFERENCE_H_

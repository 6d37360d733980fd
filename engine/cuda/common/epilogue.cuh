// SPDX-License-Identifier: Apache-2.0
// The epilogue of every operation on the device: activation(scale * row_scale * result + bias + residual_scale *
// residual), one element at a time, at the store. Multiplications and additions are explicit intrinsics, so that the
// compiler fuses them the same way wherever this is inlined. The residual may be dst itself, so the thread that stores
// an element reads its residual, with plain loads. The compiler does not move such loads across a store, so a thread
// that stores several elements loads the terms of all of them first.
#ifndef VICINAL_ENGINE_CUDA_COMMON_EPILOGUE_CUH_
#define VICINAL_ENGINE_CUDA_COMMON_EPILOGUE_CUH_

#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/cuda/common/pack.cuh"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// ReLU. A NaN stays a NaN.
__device__ inline float Rectified(float x) { return x < 0.0f ? 0.0f : x; }

// A NaN stays a NaN.
__device__ inline float HardSigmoid(float x) { return x < -3.0f ? 0.0f : x > 3.0f ? 1.0f : (x + 3.0f) * (1.0f / 6.0f); }

// The kinds that Activate leaves out. Not inlined, as they would take registers from the kernels.
__device__ __noinline__ inline float ActivateRare(ActivationKind kind, float slope, float limit, float x) {
  switch (kind) {
    case ActivationKind::kSilu:
      return x / (1.0f + expf(-x));
    case ActivationKind::kGelu:
      return x * normcdff(x);
    case ActivationKind::kGeluTanh:
      return x / (1.0f + expf(-x * fmaf(0.0713548163f, x * x, 1.59576912f)));
    case ActivationKind::kSoftplus:
      return x > slope ? x : (x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x)));
    case ActivationKind::kMish: {
      const float e = expf(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f);
      return x * (n / (n + 2.0f));
    }
    case ActivationKind::kSoftsign:
      return x / (1.0f + fabsf(x));
    case ActivationKind::kClamp:
      return x < slope ? slope : x > limit ? limit : x;
    case ActivationKind::kThreshold:
      return x <= slope ? limit : x;
    case ActivationKind::kHardSigmoid:
      return HardSigmoid(x);
    case ActivationKind::kHardSwish:
      return x * HardSigmoid(x);
    case ActivationKind::kHardShrink:
      return fabsf(x) <= slope ? 0.0f : x;
    case ActivationKind::kExp:
      return expf(x);
    case ActivationKind::kRoot:
      return sqrtf(x + slope);
    case ActivationKind::kInverseRoot:
      return 1.0f / sqrtf(x + slope);
    case ActivationKind::kSquare:
      return x * x;
    default:
      return x;
  }
}

__device__ inline float Activate(const Activation& activation, float x) {
  switch (activation.kind) {
    case ActivationKind::kNone:
      return x;
    case ActivationKind::kRelu:
      return Rectified(x);
    case ActivationKind::kElu:
      return x < 0.0f ? activation.slope * expm1f(x) : x;
    case ActivationKind::kLeakyRelu:
      return x < 0.0f ? activation.slope * x : x;
    case ActivationKind::kSigmoid:
      return 1.0f / (1.0f + expf(-x));
    case ActivationKind::kTanh:
      return tanhf(x);
    default:
      return ActivateRare(activation.kind, activation.slope, activation.limit, x);
  }
}

__device__ inline bool Holds(const LaunchCondition& condition) {
  return condition.flag == nullptr || *condition.flag == condition.value;
}

// The weight of edge `edge` from `source`: the adjacency's value or, without values, the source's factor.
__device__ inline float EdgeWeight(const CsrView& adjacency, const float* src_scale, int64_t edge, int32_t source) {
  return adjacency.value != nullptr ? __ldg(adjacency.value + edge) : __ldg(src_scale + source);
}

// The identity of addition: x + kAddIdentity is x for every x, including 0 and -0.
inline constexpr float kAddIdentity = -0.0f;

// The values that the epilogue of an element loads.
struct EpilogueTerms {
  float factor, bias, residual;
};

__device__ inline float FactorOf(const Epilogue& epilogue, int64_t row) {
  return epilogue.row_scale != nullptr ? __fmul_rn(epilogue.scale, epilogue.row_scale[row]) : epilogue.scale;
}

__device__ inline EpilogueTerms TermsOf(const Epilogue& epilogue, int64_t row, int64_t col) {
  return {FactorOf(epilogue, row), epilogue.bias != nullptr ? epilogue.bias[col] : kAddIdentity,
          epilogue.residual.data != nullptr ? epilogue.residual.data[row * epilogue.residual.stride + col] : 0.0f};
}

// The epilogue up to the bias.
__device__ inline float WithFactor(float factor, float bias, float result) {
  return __fadd_rn(__fmul_rn(result, factor), bias);
}

// The epilogue without its activation.
__device__ inline float WithTerms(const Epilogue& epilogue, const EpilogueTerms& terms, float result) {
  result = WithFactor(terms.factor, terms.bias, result);
  return epilogue.residual.data != nullptr ? fmaf(epilogue.residual_scale, terms.residual, result) : result;
}

__device__ inline float ApplyEpilogue(const Epilogue& epilogue, const EpilogueTerms& terms, float result) {
  return Activate(epilogue.activation, WithTerms(epilogue, terms, result));
}

__device__ inline float ApplyEpilogue(const Epilogue& epilogue, float result, int64_t row, int64_t col) {
  return ApplyEpilogue(epilogue, TermsOf(epilogue, row, col), result);
}

// Not inlined, as exponentials would take registers from the kernels.
__device__ __noinline__ inline float4 ActivateFour(ActivationKind kind, float slope, float limit, float4 x) {
  const Activation activation = {kind, slope, limit};
  return make_float4(Activate(activation, x.x), Activate(activation, x.y), Activate(activation, x.z),
                     Activate(activation, x.w));
}

// Applies every activation but ReLU, which is left to the caller.
template <int kCount>
__device__ inline void ApplyRareActivation(const Activation& activation, float (&x)[kCount]) {
  if (activation.kind == ActivationKind::kNone || activation.kind == ActivationKind::kRelu) return;
  if constexpr (kCount == 1) {
    x[0] = ActivateFour(activation.kind, activation.slope, activation.limit, make_float4(x[0], 0.0f, 0.0f, 0.0f)).x;
  } else {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const float4 y = ActivateFour(activation.kind, activation.slope, activation.limit,
                                    make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]));
      x[i] = y.x, x[i + 1] = y.y, x[i + 2] = y.z, x[i + 3] = y.w;
    }
  }
}

// The epilogue of columns [col, col + kVec). Columns after `last` are not read, and their results are undefined.
template <int kVec>
__device__ inline Pack<kVec> WithEpilogue(const Epilogue& epilogue, int64_t row, int64_t col, int64_t last,
                                          const Pack<kVec>& result) {
  EpilogueTerms terms[kVec];
#pragma unroll
  for (int v = 0; v < kVec; ++v) terms[v] = TermsOf(epilogue, row, min(col + v, last));
  Pack<kVec> x;
#pragma unroll
  for (int v = 0; v < kVec; ++v) {
    x.v[v] = WithTerms(epilogue, terms[v], result.v[v]);
    if (epilogue.activation.kind == ActivationKind::kRelu) x.v[v] = Rectified(x.v[v]);
  }
  ApplyRareActivation(epilogue.activation, x.v);
  return x;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_EPILOGUE_CUH_

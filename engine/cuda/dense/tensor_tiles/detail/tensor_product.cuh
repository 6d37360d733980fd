// SPDX-License-Identifier: Apache-2.0
// The common parts of the kernels of tensor_tiles: fragments of 16 inputs and their product, parameters, and the
// epilogue.
//
// The order of the 16 inputs of a step within a fragment is free, as long as both factors agree. If two inputs share a
// register, lane q = l % 4 of a row has inputs 4q to 4q + 3, which it reads at once. Both kernels use the same order,
// so they give equal bits.
#ifndef VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_DETAIL_TENSOR_PRODUCT_CUH_
#define VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_DETAIL_TENSOR_PRODUCT_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/epilogue.cuh"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

inline constexpr int kStepInputs = 16;
// Inputs per panel.
inline constexpr int kDepth = 32;

struct TensorParams {
  ConstMatrixView src;
  const float* weight;  // packed [inputs, outputs], padded with zeros
  int64_t weight_stride;
  MatrixView dst;
  Epilogue epilogue;
  Access src_access;  // packs of 16 bytes
  Access dst_access;  // pairs of columns, 8 bytes
};

// Two adjacent inputs in one register, the first in the low half.
template <ProductPrecision kPrecision>
__device__ inline uint32_t RoundedPair(float low, float high) {
  if constexpr (kPrecision == ProductPrecision::kBfloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return uint32_t{__bfloat16_as_ushort(pair.x)} | uint32_t{__bfloat16_as_ushort(pair.y)} << 16;
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return uint32_t{__half_as_ushort(pair.x)} | uint32_t{__half_as_ushort(pair.y)} << 16;
  }
}

__device__ inline uint32_t RoundedToTf32(float x) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

// A lane's parts of A [16, kStepInputs] and B [kStepInputs, 8], and sum += A B. Lane l has rows l / 4 and l / 4 + 8 of
// A and of the sums, column l / 4 of B, and columns 2 (l % 4) and 2 (l % 4) + 1 of the sums (PTX ISA, "Matrix fragments
// for mma.m16n8k8" and "mma.m16n8k16").
template <ProductPrecision kPrecision>
struct TensorStep {
  using A = uint4;
  struct B {
    uint2 part[1];
  };

  // Padding of rows, and of weights, in shared memory, in floats. It reduces bank conflicts.
  static constexpr int kRowPadding = 16, kWeightPadding = 4;

  // The lane's input k of B.
  __device__ static int InputOf(int q, int k) { return 4 * q + k; }
  // rows.Four(half, i) returns inputs i to i + 3 of the lane's row + 8 * half; rows.One(half, i) returns input i.
  template <class Rows>
  __device__ static A RoundedA(const Rows& rows, int q) {
    const float4 row = rows.Four(0, 4 * q), eighth = rows.Four(1, 4 * q);
    return {RoundedPair<kPrecision>(row.x, row.y), RoundedPair<kPrecision>(eighth.x, eighth.y),
            RoundedPair<kPrecision>(row.z, row.w), RoundedPair<kPrecision>(eighth.z, eighth.w)};
  }
  __device__ static B RoundedB(const float (&w)[4]) {
    return {{{RoundedPair<kPrecision>(w[0], w[1]), RoundedPair<kPrecision>(w[2], w[3])}}};
  }
  __device__ static void Multiply(const A& a, const B& b, float (&sum)[4]) {
    if constexpr (kPrecision == ProductPrecision::kBfloat16) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.part[0].x), "r"(b.part[0].y));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.part[0].x), "r"(b.part[0].y));
    }
  }
};

// Two products of 8 inputs: the first half of the 16, then the second.
template <>
struct TensorStep<ProductPrecision::kTf32> {
  struct A {
    uint4 first, second;
  };
  struct B {
    uint2 part[2];
  };

  static constexpr int kRowPadding = 4, kWeightPadding = 8;

  __device__ static int InputOf(int q, int k) { return q + 4 * k; }
  template <class Rows>
  __device__ static A RoundedA(const Rows& rows, int q) {
    return {RoundedHalf(rows, q), RoundedHalf(rows, q + 8)};
  }
  __device__ static B RoundedB(const float (&w)[4]) {
    return {{{RoundedToTf32(w[0]), RoundedToTf32(w[1])}, {RoundedToTf32(w[2]), RoundedToTf32(w[3])}}};
  }
  __device__ static void Multiply(const A& a, const B& b, float (&sum)[4]) {
    MultiplyHalf(a.first, b.part[0], sum);
    MultiplyHalf(a.second, b.part[1], sum);
  }

 private:
  template <class Rows>
  __device__ static uint4 RoundedHalf(const Rows& rows, int input) {
    return {RoundedToTf32(rows.One(0, input)), RoundedToTf32(rows.One(1, input)), RoundedToTf32(rows.One(0, input + 4)),
            RoundedToTf32(rows.One(1, input + 4))};
  }
  __device__ static void MultiplyHalf(const uint4& a, const uint2& b, float (&sum)[4]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
  }
};

// Stores a lane's results of one row: columns first_col + 8 j and the next, from sum[j][2 half] and the next. Residuals
// of several columns are loaded at once, as no load moves over a store.
template <int kTiles>
__device__ inline void StoreRow(const TensorParams& params, int64_t row, int64_t first_col, int half,
                                const float (&sum)[kTiles][4]) {
  constexpr int kAtOnce = kTiles < 4 ? kTiles : 4;
  if (row >= params.dst.rows) return;
  const Epilogue& epilogue = params.epilogue;
  const int64_t cols = params.dst.cols;
  const bool rare =
      epilogue.activation.kind != ActivationKind::kNone && epilogue.activation.kind != ActivationKind::kRelu;
  const float* const residual =
      epilogue.residual.data != nullptr ? epilogue.residual.data + row * epilogue.residual.stride : nullptr;
  float* const dst = params.dst.data + row * params.dst.stride;
  EpilogueTerms terms = {FactorOf(epilogue, row), kAddIdentity, 0.0f};
#pragma unroll
  for (int first = 0; first < kTiles; first += kAtOnce) {
    float added[kAtOnce][2] = {};
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int64_t col = first_col + 8 * (first + j) + i;
        if (residual != nullptr && col < cols) added[j][i] = residual[col];
      }
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t col = first_col + 8 * (first + j);
      float x[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (epilogue.bias != nullptr && col + i < cols) terms.bias = __ldg(epilogue.bias + col + i);
        terms.residual = added[j][i];
        x[i] = WithTerms(epilogue, terms, sum[first + j][2 * half + i]);
        if (epilogue.activation.kind == ActivationKind::kRelu) x[i] = Rectified(x[i]);
      }
      if (rare) {
        const float4 y = ActivateFour(epilogue.activation.kind, epilogue.activation.slope, epilogue.activation.limit,
                                      make_float4(x[0], x[1], 0.0f, 0.0f));
        x[0] = y.x, x[1] = y.y;
      }
      if (col + 1 < cols && params.dst_access != Access::kElements) {
        *reinterpret_cast<float2*>(dst + col) = make_float2(x[0], x[1]);
      } else {
        if (col < cols) dst[col] = x[0];
        if (col + 1 < cols) dst[col + 1] = x[1];
      }
    }
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_TENSOR_TILES_DETAIL_TENSOR_PRODUCT_CUH_

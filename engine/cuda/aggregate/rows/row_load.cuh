// SPDX-License-Identifier: Apache-2.0
// One lane's part of a gathered row: loaded at once (up to 16 bytes), converted to float32 when it is used. These are
// plain loads, which the compiler does not move to before AwaitPreviousKernels() (overlap.cuh).
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_LOAD_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_LOAD_CUH_

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "engine/base/vocabulary.h"
#include "engine/cuda/common/alignment.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

struct Bfloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

// Specialised by element type and elements per lane. Has Raw, Load(address) and At(raw, i).
template <class Element, int kVec>
struct RowLoad;

template <>
struct RowLoad<float, 1> {
  using Raw = float;
  __device__ static Raw Load(const float* p) { return *p; }
  __device__ static float At(const Raw& raw, int) { return raw; }
};

template <>
struct RowLoad<float, 4> {
  using Raw = float4;
  __device__ static Raw Load(const float* p) { return *reinterpret_cast<const float4*>(p); }
  __device__ static float At(const Raw& raw, int i) { return i == 0 ? raw.x : i == 1 ? raw.y : i == 2 ? raw.z : raw.w; }
};

// The word of elements 2 i and 2 i + 1.
__device__ inline uint32_t WordOf(const uint4& raw, int i) {
  return i == 0 ? raw.x : i == 1 ? raw.y : i == 2 ? raw.z : raw.w;
}
__device__ inline uint32_t WordOf(const uint2& raw, int i) { return i == 0 ? raw.x : raw.y; }

// 4 or 8 elements of 16 bits.
template <int kVec>
struct RowLoad<Bfloat16, kVec> {
  using Raw = std::conditional_t<kVec == 8, uint4, uint2>;
  __device__ static Raw Load(const Bfloat16* p) { return *reinterpret_cast<const Raw*>(p); }
  __device__ static float At(const Raw& raw, int i) {
    const uint32_t word = WordOf(raw, i / 2);
    return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000u);
  }
};

template <int kVec>
struct RowLoad<Float16, kVec> {
  using Raw = std::conditional_t<kVec == 8, uint4, uint2>;
  __device__ static Raw Load(const Float16* p) { return *reinterpret_cast<const Raw*>(p); }
  __device__ static float At(const Raw& raw, int i) {
    const uint32_t word = WordOf(raw, i / 2);
    return __half2float(__ushort_as_half(static_cast<uint16_t>(i % 2 == 0 ? word : word >> 16)));
  }
};

template <>
struct RowLoad<Bfloat16, 1> {
  using Raw = uint16_t;
  __device__ static Raw Load(const Bfloat16* p) { return p->bits; }
  __device__ static float At(const Raw& raw, int) { return __uint_as_float(uint32_t{raw} << 16); }
};

template <>
struct RowLoad<Float16, 1> {
  using Raw = uint16_t;
  __device__ static Raw Load(const Float16* p) { return p->bits; }
  __device__ static float At(const Raw& raw, int) { return __half2float(__ushort_as_half(raw)); }
};

// The rows that an aggregation reads, in any storage.
struct SourceRows {
  const void* data;
  int64_t stride;  // in elements
  Storage storage;

  int element_bytes() const { return storage == Storage::kFloat32 ? 4 : 2; }
};

inline bool InPacks(const SourceRows& rows) {
  return InPacks(rows.data, rows.stride, rows.element_bytes(), kPackBytes / rows.element_bytes());
}

__host__ __device__ inline SourceRows SourceRowsOf(const AggregateArgs& args) {
  if (args.problem.storage == Storage::kFloat32) return {args.src.data, args.src.stride, Storage::kFloat32};
  return {args.src16.data, args.src16.stride, args.problem.storage};
}

__device__ inline float ElementAt(const SourceRows& rows, int64_t row, int64_t col) {
  const int64_t at = row * rows.stride + col;
  if (rows.storage == Storage::kFloat32) return static_cast<const float*>(rows.data)[at];
  const uint16_t bits = static_cast<const uint16_t*>(rows.data)[at];
  return rows.storage == Storage::kBfloat16 ? RowLoad<Bfloat16, 1>::At(bits, 0) : RowLoad<Float16, 1>::At(bits, 0);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_LOAD_CUH_

// SPDX-License-Identifier: Apache-2.0
// The parameters of balanced_rows, and what makes a row's result out of the sum over its edges: other sums, mean, self
// term, epilogue, store.
#ifndef VICINAL_ENGINE_CUDA_ROW_FINISH_CUH_
#define VICINAL_ENGINE_CUDA_ROW_FINISH_CUH_

#include <cstdint>

#include "engine/cuda/balanced_rows.h"
#include "engine/cuda/epilogue.cuh"
#include "engine/cuda/row_load.cuh"

namespace vicinal::cuda {

struct RowsParams {
  CsrView adjacency;
  const float* src_scale;  // in place of the adjacency's values, where it has none
  const void* src;         // [S, D] of the layout's element
  int64_t src_stride;      // in elements
  uint32_t src_stride_bytes;
  Storage storage;
  MatrixView dst;
  const RowItem* items;  // null: rows in their order
  int64_t num_items;
  int64_t num_parts;  // items [0, num_parts) go to partials
  float* partials;    // [num_parts, dst.cols]
  RowBase base;
  RowCondition condition;
  Reduce reduce;
  float self_scale;
  Epilogue epilogue;
  bool extremum;      // of the messages: maximum or minimum
  bool plain;         // sums are results: no extremum, other sums, mean, self term or epilogue
  bool finish;        // the epilogue does something
  bool vector_store;  // dst is so aligned, and has so many columns, that lanes may store all their sums at once
};

__device__ inline bool Holds(const RowCondition& condition) {
  return condition.flag == nullptr || *condition.flag == condition.value;
}

__device__ inline float SourceElement(const RowsParams& params, int64_t row, int64_t col) {
  const int64_t at = row * params.src_stride + col;
  if (params.storage == Storage::kFloat32) return static_cast<const float*>(params.src)[at];
  return Widened(static_cast<const uint16_t*>(params.src)[at], params.storage);
}

// Adds the row's other sums, and turns `edges` into the number of all its edges.
template <int kCount>
__device__ inline void AddBase(const RowBase& base, int64_t row, int column, int columns, int64_t* edges,
                               float (&x)[kCount]) {
  *edges = base.row_ptr[row + 1] - base.row_ptr[row];
  const int64_t block = row / base.rows, within = row % base.rows;
  for (int piece = base.first[block]; piece < base.first[block + 1]; ++piece) {
    const float* sums = base.sums + (int64_t{piece} * base.rows + within) * base.stride + column;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (column + i < columns) x[i] += sums[i];
    }
  }
}

template <int kCount>
struct Sums {
  float x[kCount];
};

// What the result of a row is made of besides the sum over its edges, for columns from `column` on. What concerns the
// row alone is decided once, outside the loops over its columns. Not inlined: it is much code, and where rows are short
// the kernel lives by fitting into the instruction cache.
template <int kCount>
__device__ __noinline__ Sums<kCount> FinishedSums(const RowsParams* all, int64_t row, int column, Sums<kCount> sums) {
  const RowsParams& params = *all;
  const int columns = static_cast<int>(params.dst.cols);
  float(&x)[kCount] = sums.x;
  int64_t edges = params.adjacency.row_ptr[row + 1] - params.adjacency.row_ptr[row];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (params.extremum && edges == 0) x[i] = 0.0f;
    if (params.reduce == Reduce::kMin) x[i] = -x[i];
  }
  if (params.base.sums != nullptr) AddBase(params.base, row, column, columns, &edges, x);
  if (params.reduce == Reduce::kMean && edges > 0) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = __fdiv_rn(x[i], static_cast<float>(edges));
  }
  if (params.self_scale != 0.0f) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (column + i < columns) x[i] = fmaf(params.self_scale, SourceElement(params, row, column + i), x[i]);
    }
  }
  if (params.finish) ApplyEpilogueTo(params.epilogue, row, column, columns, x);
  return sums;
}

// Stores columns [column, column + kCount), as far as there are such: of a row's result, or of a part's sum.
template <int kCount>
__device__ inline void FinishRow(const RowsParams& params, int64_t item, int64_t row, int column,
                                 const float (&x)[kCount]) {
  Sums<kCount> sums;
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums.x[i] = x[i];
  float* dst = params.dst.data + row * params.dst.stride + column;
  if (item < params.num_parts) {
    dst = params.partials + item * params.dst.cols + column;
  } else if (!params.plain) {
    sums = FinishedSums(&params, row, column, sums);
  }
  if (kCount > 1 && params.vector_store) {
    if constexpr (kCount % 4 == 0) {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        *reinterpret_cast<float4*>(dst + i) = make_float4(sums.x[i], sums.x[i + 1], sums.x[i + 2], sums.x[i + 3]);
      }
    } else if constexpr (kCount == 2) {
      *reinterpret_cast<float2*>(dst) = make_float2(sums.x[0], sums.x[1]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (column + i < params.dst.cols) dst[i] = sums.x[i];
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ROW_FINISH_CUH_

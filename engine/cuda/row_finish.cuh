// SPDX-License-Identifier: Apache-2.0
// The parameters of balanced_rows, and what makes a row's result out of the sum over its edges: mean, self term,
// epilogue, store. Multiplications and additions are spelt out, so that the compiler fuses them alike, namely not,
// wherever this is inlined.
#ifndef VICINAL_ENGINE_CUDA_ROW_FINISH_CUH_
#define VICINAL_ENGINE_CUDA_ROW_FINISH_CUH_

#include <cstdint>

#include "engine/cuda/balanced_rows.h"
#include "engine/cuda/epilogue.cuh"
#include "engine/cuda/row_load.cuh"

namespace vicinal::cuda {

struct RowsParams {
  CsrView adjacency;
  const float* weights;   // null: 1
  bool weight_of_source;  // weights are of sources, not of edges
  const void* src;        // [S, D] of the layout's element
  int64_t src_stride;     // in elements
  uint32_t src_stride_bytes;
  Storage storage;
  MatrixView dst;
  const RowItem* items;  // null: rows in their order, bundle_rows to a bundle
  int64_t num_blocks;    // items [0, num_blocks) have a block each
  int64_t num_bundles;
  int bundle_rows;
  float* partials;  // [parts, dst.cols]
  LaunchCondition condition;
  Reduce reduce;
  float self_scale;
  Epilogue epilogue;
  bool extremum;      // of the messages: maximum or minimum
  bool simple;        // results are sum * share * factor + bias, rectified or not
  bool overlap;       // LaunchTarget::overlap
  bool vector_store;  // dst is so aligned, and has so many columns, that lanes may store all their sums at once
};

// What a row's result is made with besides the sum over its edges.
struct alignas(16) Finish {
  int row;       // ~p: part p, of which the sum itself is kept
  int count;     // of its own edges; below 0: no row
  float factor;  // scale, and row_scale where there is one
  float share;   // of the sum: an edge's for means, -1 for minima (which are maxima of negated messages), else 1
};

// Fetches memory: to be called long before the result is needed.
__device__ inline Finish FinishOf(const RowsParams& params, int row, int count) {
  Finish finish = {row, count, params.epilogue.scale, params.reduce == Reduce::kMin ? -1.0f : 1.0f};
  if (row < 0 || count < 0) return finish;
  if (params.epilogue.row_scale != nullptr) {
    finish.factor = __fmul_rn(finish.factor, __ldg(params.epilogue.row_scale + row));
  }
  if (params.reduce == Reduce::kMean && count > 0) finish.share = __fdiv_rn(1.0f, static_cast<float>(count));
  return finish;
}

// params.simple's part of a result.
__device__ inline float Scaled(const RowsParams& params, const Finish& finish, float sum) {
  if (params.extremum && finish.count == 0) sum = 0.0f;
  return __fmul_rn(sum, finish.share);
}

__device__ inline float WithBias(const Epilogue& epilogue, int col, float x) {
  return epilogue.bias != nullptr ? __fadd_rn(x, __ldg(epilogue.bias + col)) : x;
}

// The result of a row in column `col`, whatever it is made of.
__device__ inline float FinishedElement(const RowsParams& params, const Finish& finish, int col, float sum) {
  const Epilogue& epilogue = params.epilogue;
  const int64_t row = finish.row;
  float x = Scaled(params, finish, sum);
  if (params.self_scale != 0.0f) {
    x = fmaf(params.self_scale, ElementAt(params.src, params.storage, row * params.src_stride + col), x);
  }
  x = WithBias(epilogue, col, __fmul_rn(x, finish.factor));
  if (epilogue.addend.data != nullptr) {
    x = fmaf(epilogue.addend_scale, epilogue.addend.data[row * epilogue.addend.stride + col], x);
  }
  if (epilogue.activation.kind == ActivationKind::kNone) return x;
  if (epilogue.activation.kind == ActivationKind::kRelu) return x < 0.0f ? 0.0f : x;
  return ActivateRarely(epilogue.activation.kind, epilogue.activation.slope, x);
}

// Where the result of a row, or the sum of a part, begins.
__device__ inline float* Destination(const RowsParams& params, int row) {
  return row < 0 ? params.partials + static_cast<int64_t>(~row) * params.dst.cols
                 : params.dst.data + row * params.dst.stride;
}

// Stores columns [column, column + kCount), as far as there are such. Only where params.simple.
template <int kCount>
__device__ inline void StoreSimple(const RowsParams& params, const Finish& finish, int column, float (&x)[kCount]) {
  const int columns = static_cast<int>(params.dst.cols);
  if (finish.row >= 0) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      x[i] = __fmul_rn(Scaled(params, finish, x[i]), finish.factor);
      if (column + i < columns) x[i] = WithBias(params.epilogue, column + i, x[i]);
      if (params.epilogue.activation.kind == ActivationKind::kRelu) x[i] = x[i] < 0.0f ? 0.0f : x[i];
    }
  }
  float* const dst = Destination(params, finish.row) + column;
  if constexpr (kCount % 4 == 0) {
    if (params.vector_store) {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        // Not read again by this kernel: sources shall stay in the caches instead.
        __stcs(reinterpret_cast<float4*>(dst + i), make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]));
      }
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (column + i < columns) dst[i] = x[i];
  }
}

// Stores `tile` columns from `column` on of kSlots results, of which number s is made as finish[s] says from the sums
// at sums + s * tile. By a whole warp. Not inlined: it is much code, and where rows are short the kernel lives by
// fitting into the instruction cache, and by its registers.
__device__ __noinline__ inline void StoreFinished(const RowsParams* all, const Finish* finish, const float* sums,
                                                  int slots, int tile, int column) {
  const RowsParams& params = *all;
  const int columns = min(tile, static_cast<int>(params.dst.cols) - column), lane = threadIdx.x % 32;
#pragma unroll 1
  for (int slot = 0; slot < slots; ++slot) {
    const Finish& row = finish[slot];
    if (row.count < 0) continue;
    float* const dst = Destination(params, row.row) + column;
#pragma unroll 2
    for (int col = lane; col < columns; col += 32) {
      const float sum = sums[slot * tile + col];
      dst[col] = row.row < 0 ? sum : FinishedElement(params, row, column + col, sum);
    }
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ROW_FINISH_CUH_

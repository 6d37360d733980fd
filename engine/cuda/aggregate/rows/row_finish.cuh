// SPDX-License-Identifier: Apache-2.0
// The parameters of binned_rows, and what makes a row's result out of the sum over its edges: mean, self term,
// epilogue, store. Multiplications and additions are spelt out, so that the compiler fuses them alike, namely not,
// wherever this is inlined.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_FINISH_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_FINISH_CUH_

#include <cstdint>

#include "engine/cuda/aggregate/rows/row_load.cuh"
#include "engine/cuda/aggregate/rows/row_work.h"
#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// The product that follows the sums, if one does (row_product.cuh).
struct RowProduct {
  const float4* weight;  // [quads, out_width]: inputs 4 q to 4 q + 3 of an output, zeros from the last input on
  int quads;
  int out_width;
  MatrixView dst;
  Epilogue epilogue;
};

struct RowsParams {
  CsrView adjacency;
  const float* weights;   // null: 1
  bool weight_of_source;  // weights are of sources, not of edges
  SourceRows src;         // [S, D] of the layout's element
  uint32_t src_stride_bytes;
  MatrixView dst;  // with a product: the shape of what is multiplied, and no memory
  // Of the work list, if there is one: items with a block each, then bundles of items (row_work.h) or, in place of
  // those, short rows one after the other.
  const RowItem* items;
  const RowItem* bundled;  // null: no list, but rows in their order, bundle_rows to a bundle
  uint32_t num_blocks;
  uint32_t num_bundles;
  uint32_t num_short;
  int tile_shift;  // log2 of the tiles of columns that a warp takes one after the other, where there are short rows
  int bundle_rows;
  float* partials;  // [parts, dst.cols]
  const SplitRow* split_of_part;
  int* tickets;  // null: the parts of rows are added by another kernel, not by whoever has the last (split_parts.cuh)
  LaunchCondition condition;
  Reduce reduce;
  float self_scale;
  Epilogue epilogue;     // of dst
  RowProduct product;    // of layouts with kProduct
  bool extremum;         // of the messages: maximum or minimum
  bool scaled;           // results are not the sums themselves, but for bias, residual and activation
  bool simple;           // results are sum * share * factor + bias, rectified or not
  bool overlap;          // LaunchTarget::overlap
  bool vector_store;     // dst is so aligned, and has so many columns, that lanes may store all their sums at once
  bool vector_residual;  // and the residual, that they may load all of theirs
  bool wide;             // bundles have room for kWideItems
};

// What a launch's arguments say, whoever works on what: everything but the work list, partials, tickets and condition.
RowsParams RowsParamsOf(const AggregateArgs& args, const LaunchTarget& target);

// What a row's result is made with besides the sum over its edges.
struct alignas(16) Finish {
  int row;       // ~p: part p, of which the sum itself is kept
  int count;     // of its own edges; below 0: no row
  float factor;  // scale, and row_scale where there is one
  float share;   // of the sum: an edge's for means, -1 for minima (which are maxima of negated messages), else 1
};

// row_scale(): the row's factor, where rows have any.
template <class RowScale>
__device__ inline Finish FinishWith(const RowsParams& params, int row, int count, const RowScale& row_scale) {
  Finish finish = {row, count, params.epilogue.scale, params.reduce == Reduce::kMin ? -1.0f : 1.0f};
  if (row < 0 || count < 0) return finish;
  if (params.epilogue.row_scale != nullptr) finish.factor = __fmul_rn(finish.factor, row_scale());
  if (params.reduce == Reduce::kMean && count > 0) finish.share = __fdiv_rn(1.0f, static_cast<float>(count));
  return finish;
}

// Fetches memory: to be called long before the result is needed.
__device__ inline Finish FinishOf(const RowsParams& params, int row, int count) {
  return FinishWith(params, row, count, [&] { return __ldg(params.epilogue.row_scale + row); });
}

// params.simple's part of a result.
__device__ inline float Scaled(const RowsParams& params, const Finish& finish, float sum) {
  if (params.extremum && finish.count == 0) sum = 0.0f;
  return __fmul_rn(sum, finish.share);
}

__device__ inline float WithSelf(const RowsParams& params, float own, float x) {
  return params.self_scale != 0.0f ? fmaf(params.self_scale, own, x) : x;
}

__device__ inline float WithResidual(const Epilogue& epilogue, float residual, float x) {
  return epilogue.residual.data != nullptr ? fmaf(epilogue.residual_scale, residual, x) : x;
}

// Where the result of a row, or the sum of a part, begins.
__device__ inline float* Destination(const RowsParams& params, int row) {
  return row < 0 ? params.partials + static_cast<int64_t>(~row) * params.dst.cols
                 : params.dst.data + row * params.dst.stride;
}

// Stores columns [column, column + kCount) of it, as far as there are such.
template <int kCount>
__device__ inline void StoreColumns(const RowsParams& params, const Finish& finish, int column,
                                    const float (&x)[kCount]) {
  const int columns = static_cast<int>(params.dst.cols);
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

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_FINISH_CUH_

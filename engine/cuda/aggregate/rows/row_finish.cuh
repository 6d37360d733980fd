// SPDX-License-Identifier: Apache-2.0
// The parameters of binned_rows, and what makes a row's result out of the sum over its edges: mean, self term,
// epilogue, store. Multiplications and additions are spelt out, so that the compiler fuses them alike, namely not,
// wherever this is inlined.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_FINISH_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_FINISH_CUH_

#include <cstdint>

#include "engine/cuda/aggregate/rows/row_load.cuh"
#include "engine/cuda/aggregate/rows/row_work.h"
#include "engine/cuda/common/alignment.h"
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

// What weights belong to.
enum class WeightsOf : bool { kEdges, kSources };

// How messages are reduced: added up, or the larger taken. A minimum is the maximum of negated messages.
enum class Combine : bool { kAdd, kLarger };

// Whether a row's result is its sum itself (but for bias, residual and activation), or the sum scaled: by a mean's
// share, by a factor of the epilogue or the row, with a self term added, or negated.
enum class Scaling : bool { kNone, kScaled };

// The rows to aggregate, and how they are shared out to warps and blocks (row_work.h).
struct RowsWork {
  CsrView adjacency;  // [R, S]; weights are in RowsSource
  // The work list: num_blocks items with a block each, then bundles of items or, in place of bundles, num_short short
  // rows. Null without a list.
  const RowItem* items;
  const RowItem* bundled;  // items + num_blocks; null: rows in their order, bundle_rows to a bundle
  uint32_t num_blocks;
  uint32_t num_bundles;
  uint32_t num_short;
  int tile_shift;  // log2 of the tiles of columns that a warp takes one after the other, where there are short rows
  int bundle_rows;
  int bundle_items;  // items that a bundle of the list has room for: kBundleItems or kWideItems
  LaunchCondition condition;
};

// Where messages come from.
struct RowsSource {
  SourceRows rows;        // [S, D], float32 or 16 bits
  uint32_t stride_bytes;  // of a row
  WeightsOf weights_of;   // weights [E] or [S]
  const float* weights;   // null: 1
};

// The parts of split rows, and who adds them.
struct RowsParts {
  float* partials;                // [parts, D]
  const SplitRow* split_of_part;  // [parts], with tickets
  int* tickets;  // null: a second kernel adds the parts, not the warp that has the last one (split_parts.cuh)
};

// From a row's sum to its result.
struct RowsEpilogue {
  MatrixView dst;  // [R, D]; with a product only its shape, and no memory
  Reduce reduce;
  float self_scale;    // of the row's own source; 0: none is added
  Epilogue epilogue;   // of dst
  RowProduct product;  // of layouts with kProduct
  Combine combine;
  Scaling scaling;
  Access dst_access;
  Access residual_access;

  __host__ __device__ bool extremum() const { return combine != Combine::kAdd; }
  __host__ __device__ bool scaled() const { return scaling != Scaling::kNone; }
  // True if results are sum * share * factor + bias, rectified or not: kernels for these need fewer registers.
  bool simple() const {
    return self_scale == 0.0f && epilogue.residual.empty() &&
           (epilogue.activation.kind == ActivationKind::kNone || epilogue.activation.kind == ActivationKind::kRelu);
  }
};

// The argument of every kernel over rows: trivially copyable.
struct RowsParams {
  RowsWork work;
  RowsSource source;
  RowsParts parts;
  RowsEpilogue out;
};

// The parameters that follow from the arguments alone: all but the work list, parts and condition.
RowsParams RowsParamsOf(const AggregateArgs& args);

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
  Finish finish = {row, count, params.out.epilogue.scale, params.out.reduce == Reduce::kMin ? -1.0f : 1.0f};
  if (row < 0 || count < 0) return finish;
  if (params.out.epilogue.row_scale != nullptr) finish.factor = __fmul_rn(finish.factor, row_scale());
  if (params.out.reduce == Reduce::kMean && count > 0) finish.share = __fdiv_rn(1.0f, static_cast<float>(count));
  return finish;
}

// Fetches memory: to be called long before the result is needed.
__device__ inline Finish FinishOf(const RowsParams& params, int row, int count) {
  return FinishWith(params, row, count, [&] { return __ldg(params.out.epilogue.row_scale + row); });
}

// The sum's part of a result.
__device__ inline float Scaled(const RowsParams& params, const Finish& finish, float sum) {
  if (params.out.extremum() && finish.count == 0) sum = 0.0f;
  return __fmul_rn(sum, finish.share);
}

__device__ inline float WithSelf(const RowsParams& params, float own, float x) {
  return params.out.self_scale != 0.0f ? fmaf(params.out.self_scale, own, x) : x;
}

__device__ inline float WithResidual(const Epilogue& epilogue, float residual, float x) {
  return epilogue.residual.data != nullptr ? fmaf(epilogue.residual_scale, residual, x) : x;
}

// Where the result of a row, or the sum of a part, begins.
__device__ inline float* Destination(const RowsParams& params, int row) {
  return row < 0 ? params.parts.partials + static_cast<int64_t>(~row) * params.out.dst.cols
                 : params.out.dst.data + row * params.out.dst.stride;
}

// Stores columns [column, column + kCount) of it, as far as there are such.
template <int kCount>
__device__ inline void StoreColumns(const RowsParams& params, const Finish& finish, int column,
                                    const float (&x)[kCount]) {
  const int columns = static_cast<int>(params.out.dst.cols);
  float* const dst = Destination(params, finish.row) + column;
  if constexpr (kCount % 4 == 0) {
    if (params.out.dst_access != Access::kElements) {
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

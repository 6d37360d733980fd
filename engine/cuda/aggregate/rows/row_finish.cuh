// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels over rows, and how the sum over a row's edges becomes its result: mean, self term,
// epilogue, store. Multiplications and additions are explicit intrinsics, so that the compiler fuses none of them,
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

// The product that may follow the sums (row_product.cuh).
struct RowProduct {
  const float4* weight;  // [quads, out_width]: inputs 4 q to 4 q + 3 of an output, zeros from the last input on
  int quads;
  int out_width;
  MatrixView dst;
  Epilogue epilogue;
};

// What weights belong to.
enum class WeightsOf : bool { kEdges, kSources };

// How messages are reduced: added, or the larger taken. A minimum is the negated maximum of negated messages.
enum class Combine : bool { kAdd, kLarger };

// kNone: a row's result is its sum plus bias and residual, activated. kScaled: the sum is also divided by the degree,
// multiplied by a factor of the epilogue or the row, joined with a self term, or negated.
enum class Scaling : bool { kNone, kScaled };

// The rows to aggregate, and how they are distributed over warps and blocks (row_work.h).
struct RowsWork {
  CsrView adjacency;  // [R, S]; weights are in RowsSource
  // The work list: num_blocks items with a block each, then bundles of items or, on small graphs, num_short short rows.
  // Null without a list.
  const RowItem* items;
  const RowItem* bundled;  // items + num_blocks; null: rows in their order, bundle_rows to a bundle
  uint32_t num_blocks;
  uint32_t num_bundles;
  uint32_t num_short;
  int tile_shift;  // log2 of the number of column tiles that a warp computes in turn, with num_short
  int bundle_rows;
  int bundle_items;  // that a bundle of the list has room for: kBundleItems or kWideItems
  LaunchCondition condition;
};

// Where messages come from.
struct RowsSource {
  SourceRows rows;        // [S, D], float32 or 16 bits
  uint32_t stride_bytes;  // of a row
  WeightsOf weights_of;   // weights [E] or [S]
  const float* weights;   // null: all are 1
};

// The parts of split rows, and who adds them.
struct RowsParts {
  float* partials;                // [parts, D]
  const SplitRow* split_of_part;  // [parts], with tickets
  int* tickets;  // null: a second kernel adds the parts, in place of the warp that stores the last (split_parts.cuh)
};

// From a row's sum to its result.
struct RowsEpilogue {
  MatrixView dst;  // [R, D]; with a product, the shape of the sums and a null pointer
  Reduce reduce;
  float self_scale;    // of the row's own source; 0: no self term
  Epilogue epilogue;   // of dst
  RowProduct product;  // of layouts with kProduct
  Combine combine;
  Scaling scaling;
  Access dst_access;
  Access residual_access;

  __host__ __device__ bool extremum() const { return combine != Combine::kAdd; }
  __host__ __device__ bool scaled() const { return scaling != Scaling::kNone; }
  // True if results are sum * share * factor + bias, with or without a ReLU. Kernels for these need fewer registers.
  bool simple() const {
    return self_scale == 0.0f && epilogue.residual.empty() &&
           (epilogue.activation.kind == ActivationKind::kNone || epilogue.activation.kind == ActivationKind::kRelu);
  }
};

// The argument of every kernel over rows. Trivially copyable.
struct RowsParams {
  RowsWork work;
  RowsSource source;
  RowsParts parts;
  RowsEpilogue out;
};

// The parameters that `args` determines: all but the work list, parts and launch condition.
RowsParams RowsParamsOf(const AggregateArgs& args);

// What turns the sum over a row's edges into its result.
struct alignas(16) Finish {
  int row;       // ~p: part p, whose sum is stored as it is
  int count;     // edges of the item; negative: no item
  float factor;  // scale * row_scale
  float share;   // factor of the sum: 1 / edges for means, -1 for minima, else 1
};

// `row_scale` returns the row's factor. It is called only if the epilogue has such factors.
template <class RowScale>
__device__ inline Finish FinishWith(const RowsParams& params, int row, int count, const RowScale& row_scale) {
  Finish finish = {row, count, params.out.epilogue.scale, params.out.reduce == Reduce::kMin ? -1.0f : 1.0f};
  if (row < 0 || count < 0) return finish;
  if (params.out.epilogue.row_scale != nullptr) finish.factor = __fmul_rn(finish.factor, row_scale());
  if (params.out.reduce == Reduce::kMean && count > 0) finish.share = __fdiv_rn(1.0f, static_cast<float>(count));
  return finish;
}

// Loads from global memory, so it is to be called long before the result is needed.
__device__ inline Finish FinishOf(const RowsParams& params, int row, int count) {
  return FinishWith(params, row, count, [&] { return __ldg(params.out.epilogue.row_scale + row); });
}

// The sum times its share; 0 for an extremum over no edges.
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

// Where the result of row `row`, or the sum of part ~row, is stored.
__device__ inline float* Destination(const RowsParams& params, int row) {
  return row < 0 ? params.parts.partials + static_cast<int64_t>(~row) * params.out.dst.cols
                 : params.out.dst.data + row * params.out.dst.stride;
}

// Stores columns [column, column + kCount) there, up to the last column.
template <int kCount>
__device__ inline void StoreColumns(const RowsParams& params, const Finish& finish, int column,
                                    const float (&x)[kCount]) {
  const int columns = static_cast<int>(params.out.dst.cols);
  float* const dst = Destination(params, finish.row) + column;
  if constexpr (kCount % 4 == 0) {
    if (params.out.dst_access != Access::kElements) {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        // This kernel does not read it again, so it should not push sources out of the caches.
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

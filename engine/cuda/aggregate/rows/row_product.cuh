// SPDX-License-Identifier: Apache-2.0
// The small product that may follow an aggregation of binned_rows. A finished row is multiplied by W^T at once, and the
// row itself is never stored to global memory.
//
// Idea. The lanes of a group put their rows into shared memory. Then each lane computes outputs of its own: four inputs
// of a row at a time, which all lanes read at once, times W from the L1 cache, packed so that four inputs of an output
// are adjacent. Inputs are added in order, as dense_update adds a fold of them, so the bits are equal. A load feeds
// only a few multiply-adds, so this is for few outputs (kMaxProductOutputs): it saves storing and loading a row once,
// whatever the number of outputs.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_PRODUCT_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_PRODUCT_CUH_

#include <cstdint>

#include "engine/cuda/aggregate/rows/row_lanes.cuh"
#include "engine/cuda/common/epilogue.cuh"

namespace vicinal::cuda {

// The first weights of a lane's only output. The lane may fetch them long before it has a row to multiply.
template <int kQuads>
struct WeightsAhead {
  float4 quads[kQuads > 0 ? kQuads : 1];

  // Plain loads, which the compiler does not move (overlap.cuh).
  __device__ void Load(const RowProduct& product, int output) {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      quads[q] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (q < product.quads && output < product.out_width) quads[q] = product.weight[q * product.out_width + output];
    }
  }
};

__device__ inline float WithQuad(float sum, const float4& row, const float4& weight) {
  sum = fmaf(row.x, weight.x, sum);
  sum = fmaf(row.y, weight.y, sum);
  sum = fmaf(row.z, weight.z, sum);
  return fmaf(row.w, weight.w, sum);
}

// Computes and stores output `output` of the row at `inputs`. `sum` is that of the quads before `quad`.
__device__ inline void MultiplyRow(const RowProduct& product, const float4* inputs, int row, int output, int quad,
                                   float sum) {
  const float4* weight = product.weight + quad * product.out_width + output;
#pragma unroll 4
  for (; quad < product.quads; ++quad, weight += product.out_width) sum = WithQuad(sum, inputs[quad], __ldg(weight));
  const EpilogueTerms terms = TermsOf(product.epilogue, row, output);
  // Adding the fold to 0 turns a sum of -0 into 0, as in dense_update.
  float x[1] = {WithTerms(product.epilogue, terms, 0.0f + sum)};
  if (product.epilogue.activation.kind == ActivationKind::kRelu) x[0] = Rectified(x[0]);
  ApplyRareActivation(product.epilogue.activation, x);
  product.dst.data[row * product.dst.stride + output] = x[0];
}

// One lane's share, of `lanes` lanes, of the outputs of kRows rows (negative: no row) that lie kStride quads apart.
template <int kRows, int kStride>
__device__ inline void MultiplyShare(const RowProduct& product, const float4* table, const int (&rows)[kRows], int lane,
                                     int lanes) {
  static_assert(kRows <= 2);
  for (int job = lane; job < kRows * product.out_width; job += lanes) {
    const bool second = kRows > 1 && job >= product.out_width;
    const int row = rows[second ? kRows - 1 : 0], output = second ? job - product.out_width : job;
    if (row >= 0) MultiplyRow(product, table + (second ? kStride : 0), row, output, 0, 0.0f);
  }
}

// Rows that the lanes of a warp exchange, padded so that rows read at once lie in different banks.
template <class Layout>
struct ExchangedRows {
  static constexpr int kQuads = Layout::kLanes + 1;
  __device__ static float4* OfWarp(int warp) {
    __shared__ float4 tables[kBlockWarps][Layout::kGroups * Layout::kRows * kQuads];
    return tables[warp];
  }
};

// Multiplies kRows finished rows of each group of the warp and stores the products. The lane has the columns x[r] of
// rows[r] (negative: no row). To be called by whole warps.
template <class Layout, int kRows, int kAhead>
__device__ inline void MultiplyRows(const RowsParams& params, const Lane<Layout>& at, const int (&rows)[kRows],
                                    const WeightsAhead<kAhead>& ahead, float (&x)[kRows][Layout::kVec]) {
  static_assert(Layout::kVec == 4 && kRows <= Layout::kRows && Layout::kTile >= 4 * kAhead);
  constexpr int kRowQuads = ExchangedRows<Layout>::kQuads;
  float4* const table = ExchangedRows<Layout>::OfWarp(at.warp) + at.group * kRows * kRowQuads;
  const int lane = at.lane % Layout::kLanes, columns = static_cast<int>(params.out.dst.cols);
  __syncwarp();
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if constexpr (!Layout::kSimple) ApplyRareActivation(params.out.epilogue.activation, x[r]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (at.column + i >= columns) x[r][i] = 0.0f;
    }
    table[r * kRowQuads + lane] = make_float4(x[r][0], x[r][1], x[r][2], x[r][3]);
  }
  __syncwarp();
  const RowProduct& product = params.out.product;
  if constexpr (kAhead > 0) {
    if (product.out_width <= Layout::kLanes) {
      if (rows[0] < 0 || lane >= product.out_width) return;
      float sum = 0.0f;
#pragma unroll
      for (int quad = 0; quad < kAhead; ++quad) sum = WithQuad(sum, table[quad], ahead.quads[quad]);
      MultiplyRow(product, table, rows[0], lane, kAhead, sum);
      return;
    }
  }
  MultiplyShare<kRows, kRowQuads>(product, table, rows, lane, Layout::kLanes);
}

// Finishes a row of which each group has the sum. Groups whose `row` is not negative multiply it and store the product.
// To be called by whole warps.
template <class Layout, int kAhead>
__device__ inline void MultiplySum(const RowsParams& params, const Lane<Layout>& at, const char* src,
                                   const Finish& finish, int row, const WeightsAhead<kAhead>& ahead,
                                   const float (&sum)[Layout::kVec]) {
  float x[1][Layout::kVec];
#pragma unroll
  for (int i = 0; i < Layout::kVec; ++i) x[0][i] = sum[i];
  LaneTerms<Layout> terms;
  terms.Load(params, at, src, finish);
  MakeResults(params, at, finish, terms, x[0]);
  const int rows[1] = {row};
  MultiplyRows(params, at, rows, ahead, x);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_PRODUCT_CUH_

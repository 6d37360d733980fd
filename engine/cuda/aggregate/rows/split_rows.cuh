// SPDX-License-Identifier: Apache-2.0
// Finishes split rows: adds the sums of a row's parts and computes the row's result.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_SPLIT_ROWS_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_SPLIT_ROWS_CUH_

#include <cstdint>

#include "engine/cuda/aggregate/rows/row_finish.cuh"
#include "engine/cuda/aggregate/rows/row_work.h"
#include "engine/cuda/common/larger.cuh"
#include "engine/cuda/common/launch.h"
#include "engine/cuda/common/overlap.cuh"
#include "engine/cuda/common/pack.cuh"

namespace vicinal::cuda {

// The split rows of a launch, in device memory.
struct SplitRows {
  const SplitRow* rows;
  int64_t count;
  bool parts_are_quads;  // else pieces, four to a quad (row_work.h)
};

// The sum of the first `count` of four parts x, in order.
template <int kVec>
__device__ inline Pack<kVec> SumOfFour(const RowsParams& params, const Pack<kVec> (&x)[kPiecesPerQuad], int count) {
  Pack<kVec> sum = x[0];
#pragma unroll
  for (int i = 1; i < kPiecesPerQuad; ++i)
#pragma unroll
    for (int c = 0; c < kVec; ++c)
      sum.v[c] = i < count ? SumOrLarger(params.out.extremum(), sum.v[c], x[i].v[c]) : sum.v[c];
  return sum;
}

// Columns [col, col + kVec) of the sum of the row's parts, in the order of row_work.h.
template <int kVec>
__device__ inline Pack<kVec> SumOfParts(const RowsParams& params, const SplitRow& split, bool parts_are_quads,
                                        int64_t col) {
  const float* const partial = params.parts.partials + split.first_part * params.out.dst.cols + col;
  Pack<kVec> total = {};
#pragma unroll 1
  for (int first = 0; first < split.parts; first += kPiecesPerQuad) {
    Pack<kVec> x[kPiecesPerQuad];
#pragma unroll
    for (int i = 0; i < kPiecesPerQuad; ++i) {
      x[i] = LoadCoherent<kVec>(partial + min(first + i, split.parts - 1) * params.out.dst.cols);
    }
    // Quads are added to the total one by one. Pieces are first added up to their quad, and that to the total.
    const bool go_on = parts_are_quads && first > 0, own_sum = !parts_are_quads && first > 0;
#pragma unroll
    for (int c = 0; c < kVec; ++c)
      x[0].v[c] = go_on ? SumOrLarger(params.out.extremum(), total.v[c], x[0].v[c]) : x[0].v[c];
    const Pack<kVec> sum = SumOfFour(params, x, split.parts - first);
#pragma unroll
    for (int c = 0; c < kVec; ++c)
      total.v[c] = own_sum ? SumOrLarger(params.out.extremum(), total.v[c], sum.v[c]) : sum.v[c];
  }
  return total;
}

__device__ inline Finish FinishOfSplit(const RowsParams& params, const SplitRow& split) {
  const int64_t* const row_ptr = params.work.adjacency.row_ptr + split.row;
  return FinishOf(params, split.row, static_cast<int>(row_ptr[1] - row_ptr[0]));
}

// Columns [col, col + kVec) of the row's result. REQUIRES: AwaitPreviousKernels() was called. `finish` may be loaded
// before.
template <int kVec>
__device__ inline Pack<kVec> ResultOfParts(const RowsParams& params, const SplitRow& split, const Finish& finish,
                                           bool parts_are_quads, int64_t col) {
  EpilogueTerms terms[kVec];
  float own[kVec] = {};
#pragma unroll
  for (int c = 0; c < kVec; ++c) {
    terms[c] = TermsOf(params.out.epilogue, split.row, col + c);
    if (params.out.self_scale != 0.0f) own[c] = ElementAt(params.source.rows, split.row, col + c);
  }
  Pack<kVec> x = SumOfParts<kVec>(params, split, parts_are_quads, col);
#pragma unroll
  for (int c = 0; c < kVec; ++c) {
    x.v[c] = ApplyEpilogue(params.out.epilogue, terms[c], WithSelf(params, own[c], Scaled(params, finish, x.v[c])));
  }
  return x;
}

// Finishes the rows. Work before it in the stream has stored their parts in params.parts.partials.
cudaError_t LaunchFinishSplitRows(const RowsParams& params, const SplitRows& splits, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_SPLIT_ROWS_CUH_

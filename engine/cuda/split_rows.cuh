// SPDX-License-Identifier: Apache-2.0
// What balanced_rows makes of a row that it has in parts (row_work.h): its sum, and its result.
#ifndef VICINAL_ENGINE_CUDA_SPLIT_ROWS_CUH_
#define VICINAL_ENGINE_CUDA_SPLIT_ROWS_CUH_

#include <cstdint>

#include "engine/cuda/overlap.cuh"
#include "engine/cuda/row_finish.cuh"
#include "engine/cuda/row_work.h"

namespace vicinal::cuda {

// Column `col` of the sum of the row's parts, in their order.
__device__ inline float SumOfParts(const RowsParams& params, const SplitRow& split, int parts_per_quad, int64_t col) {
  const auto join = [&](float a, float b) { return params.extremum ? fmaxf(a, b) : a + b; };
  const float* partial = params.partials + split.first_part * params.dst.cols + col;
  float total = 0.0f, quad = 0.0f;
  for (int first = 0; first < split.parts; first += kPiecesPerQuad) {
    float x[kPiecesPerQuad];
#pragma unroll
    for (int i = 0; i < kPiecesPerQuad; ++i) {
      x[i] = __ldcg(partial + min(first + i, split.parts - 1) * params.dst.cols);
    }
#pragma unroll
    for (int i = 0; i < kPiecesPerQuad; ++i) {
      const int part = first + i;
      if (part >= split.parts) break;
      quad = part % parts_per_quad == 0 ? x[i] : join(quad, x[i]);
      if ((part + 1) % parts_per_quad != 0 && part + 1 < split.parts) continue;
      total = part < parts_per_quad ? quad : join(total, quad);
    }
  }
  return total;
}

// Column `col` of the row's result. After AwaitFormer(); `finish` was made before.
__device__ inline float ResultOfParts(const RowsParams& params, const SplitRow& split, const Finish& finish,
                                      int parts_per_quad, int64_t col) {
  const float own = params.self_scale != 0.0f ? ElementAt(params.src, split.row, col) : 0.0f;
  const EpilogueTerms terms = TermsOf(params.epilogue, split.row, col);
  const float total = SumOfParts(params, split, parts_per_quad, col);
  return ApplyEpilogue(params.epilogue, terms, WithSelf(params, own, Scaled(params, finish, total)));
}

__device__ inline Finish FinishOfSplit(const RowsParams& params, const SplitRow& split) {
  const int64_t* const row_ptr = params.adjacency.row_ptr + split.row;
  return FinishOf(params, split.row, static_cast<int>(row_ptr[1] - row_ptr[0]));
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_SPLIT_ROWS_CUH_

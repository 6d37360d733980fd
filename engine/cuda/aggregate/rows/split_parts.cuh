// SPDX-License-Identifier: Apache-2.0
// Split rows of binned_rows, finished without a second kernel, which would take 2 us: the warp that stores the last of
// a row's parts adds all of them, in their order, and finishes the row. The sum does not depend on which warp that is.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_SPLIT_PARTS_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_SPLIT_PARTS_CUH_

#include <cstdint>

#include "engine/cuda/aggregate/rows/row_lanes.cuh"
#include "engine/cuda/aggregate/rows/split_rows.cuh"

namespace vicinal::cuda {

// True if `part`, which the warp has stored, was the last missing part of its row.
template <class Layout>
__device__ inline bool ArrivesLast(const RowsParams& params, const Lane<Layout>& at, const SplitRow& split) {
  __threadfence();
  __syncwarp();
  const int64_t tiles = (params.out.dst.cols + Layout::kTile - 1) / Layout::kTile;
  int* const ticket = params.parts.tickets + split.first_part * tiles + at.tile / Layout::kTile;
  int before = 0;
  if (at.lane == 0) before = atomicAdd(ticket, 1);
  if (__shfl_sync(kWholeWarp, before, 0) + 1 < split.parts) return false;
  if (at.lane == 0) *ticket = 0;
  __threadfence();
  return true;
}

// A lane's columns of the sum of quad `quad` of the row; columns outside the row are not read.
template <class Layout>
__device__ inline Pack<Layout::kVec> SumOfQuad(const RowsParams& params, const Lane<Layout>& at, const SplitRow& split,
                                               int quad) {
  const int first = quad * kPiecesPerQuad;
  const int64_t columns = params.out.dst.cols;
  const float* const parts = params.parts.partials + (split.first_part + first) * columns + at.column;
  Pack<Layout::kVec> x[kPiecesPerQuad];
#pragma unroll
  for (int i = 0; i < kPiecesPerQuad; ++i)
#pragma unroll
    for (int c = 0; c < Layout::kVec; ++c) {
      x[i].v[c] = 0.0f;
      if (first + i < split.parts && at.column + c < columns) x[i].v[c] = __ldcg(parts + i * columns + c);
    }
  return SumOfFour(params, x, split.parts - first);
}

// Finishes the row that item `row` is a part of, if no other part is missing. Not inlined, and computes again what the
// caller knows: keeping that would cost the kernel's loops registers.
template <class Layout>
__device__ __noinline__ void FinishIfLast(const RowsParams& params, uint32_t tile_number, int row) {
  const Lane<Layout> at(tile_number);
  const char* const src = at.Source(params);
  const SplitRow split = params.parts.split_of_part[~row];
  if (!ArrivesLast(params, at, split)) return;
  const int quads = (split.parts + kPiecesPerQuad - 1) / kPiecesPerQuad;
  float total[Layout::kVec];
#pragma unroll 1
  for (int first = 0; first < quads; first += Layout::kGroups) {
    const Pack<Layout::kVec> sum = SumOfQuad(params, at, split, first + at.group);
#pragma unroll 1
    for (int group = 0; group < Layout::kGroups && first + group < quads; ++group) {
#pragma unroll
      for (int c = 0; c < Layout::kVec; ++c) {
        const float x = __shfl_sync(kWholeWarp, sum.v[c], group * Layout::kLanes + at.lane % Layout::kLanes);
        total[c] = first + group == 0 ? x : SumOrLarger(params.out.extremum(), total[c], x);
      }
    }
  }
  if (at.group > 0 || !at.has_columns(params)) return;
  FinishRow(params, at, src, FinishOfSplit(params, split), total);
}

// To be called by the whole warp after it has stored the results of item `row`. If that was the last missing part of a
// row, finishes the row. Split rows followed by a product always need a second kernel.
template <class Layout>
__device__ inline void FinishWithPart(const RowsParams& params, const Lane<Layout>& at, int row) {
  if constexpr (!Layout::kProduct) {
    if (row < 0 && params.parts.tickets != nullptr) FinishIfLast<Layout>(params, at.tile / Layout::kTile, row);
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_SPLIT_PARTS_CUH_

// SPDX-License-Identifier: Apache-2.0
// The end of a row whose sum several launches share.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_FINISHED_ROW_CUH_
#define VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_FINISHED_ROW_CUH_

#include <cstdint>

#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/published/groups/neighbor_groups.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// What follows the sum of a row's edges.
struct RowEnd {
  CarriedSums carried;
  Reduce reduce;
  float self_scale;  // of the row's own source; 0: no self term
  const Epilogue& epilogue;
  ConstMatrixView src;
};

// The result of an element whose own edges gave x: adds the carried sum, then mean, self term and epilogue. `edges`: of
// the row in the whole adjacency.
__device__ inline float FinishedRow(const RowEnd& end, int64_t row, int64_t col, int64_t edges, float x) {
  if (end.carried.data != nullptr) x += end.carried.data[row * end.carried.stride + col];
  if (end.reduce == Reduce::kMean && edges > 0) x = __fdiv_rn(x, static_cast<float>(edges));
  if (end.self_scale != 0.0f) x = fmaf(end.self_scale, end.src.data[row * end.src.stride + col], x);
  return ApplyEpilogue(end.epilogue, x, row, col);
}

// Edges of a row in the whole adjacency; `row_ptr` is that of the launch.
__device__ inline int64_t WholeDegree(const CarriedSums& carried, const int64_t* row_ptr, int64_t row) {
  const int64_t* ptr = carried.degree_ptr != nullptr ? carried.degree_ptr : row_ptr;
  return __ldg(ptr + row + 1) - __ldg(ptr + row);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_FINISHED_ROW_CUH_

// SPDX-License-Identifier: Apache-2.0
// A model of the time that a GPU takes to gather and add rows: what the predictions of the GPU's aggregation and
// attention kernels are made of (Kernel::PredictSeconds). It is the bytes of indices, gathered rows and results over
// the speeds of L2 and memory of an H200, times a factor by which each kernel differs from a plain row split. Only
// proportions matter. In host code, so that backends other than CUDA can use it.
#ifndef VICINAL_ENGINE_KERNELS_GPU_GATHER_COST_H_
#define VICINAL_ENGINE_KERNELS_GPU_GATHER_COST_H_

#include <cstdint>

#include "engine/kernels/operations.h"
#include "engine/kernels/work_shape.h"

namespace vicinal {

// Below so many edges a GPU's launches and idle multiprocessors cost more than its bytes.
inline constexpr int64_t kSmallGpuGraphEdges = 200'000;

// True where rows are long and many: kernels that prepare the adjacency then gain.
inline bool HasManyLongRows(const WorkShape& shape) {
  constexpr int64_t kLongRow = 16;
  return shape.edges >= kSmallGpuGraphEdges && shape.edges >= kLongRow * shape.rows;
}

// `factor`: of the time beside the launch, measured against a plain row split.
double GpuGatherSeconds(const AggregateProblem& problem, const WorkShape& shape, double factor = 1.0);
double GpuGatherSeconds(const AttentionProblem& problem, const WorkShape& shape, double factor = 1.0);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_GPU_GATHER_COST_H_

// SPDX-License-Identifier: Apache-2.0
// Cost model of a GPU that gathers and adds rows, for Kernel::PredictSeconds of aggregation and attention kernels: the
// bytes of indices, gathered rows and results divided by the L2 and memory bandwidths of an H200, times a factor of
// each kernel relative to a plain row split. Only ratios matter. Host code, so that backends other than CUDA can use
// it.
#ifndef VICINAL_ENGINE_KERNELS_GPU_GATHER_COST_H_
#define VICINAL_ENGINE_KERNELS_GPU_GATHER_COST_H_

#include <cstdint>

#include "engine/kernels/operations.h"
#include "engine/kernels/work_shape.h"

namespace vicinal {

// Below this number of edges, launches and idle multiprocessors cost more than bytes.
inline constexpr int64_t kSmallGpuGraphEdges = 200'000;

// True for many long rows, where kernels with layouts gain.
inline bool HasManyLongRows(const WorkShape& shape) {
  constexpr int64_t kLongRow = 16;
  return shape.edges >= kSmallGpuGraphEdges && shape.edges >= kLongRow * shape.rows;
}

// `factor`: the kernel's time without the launch, relative to a plain row split.
double GpuGatherSeconds(const AggregateProblem& problem, const WorkShape& shape, double factor = 1.0);
double GpuGatherSeconds(const AttentionProblem& problem, const WorkShape& shape, double factor = 1.0);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_GPU_GATHER_COST_H_

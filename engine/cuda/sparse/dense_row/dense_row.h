// SPDX-License-Identifier: Apache-2.0
// The launcher of dense_row, free of device code. The idea is in dense_row.cu.
#ifndef VICINAL_ENGINE_CUDA_SPARSE_DENSE_ROW_DENSE_ROW_H_
#define VICINAL_ENGINE_CUDA_SPARSE_DENSE_ROW_DENSE_ROW_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Maximum concurrent blocks. Each has a dense row of its own in scratch.
inline constexpr int64_t kSparseAggregateBlocks = 528;

// Floats of a block's dense row: the reduced values and, for maxima, the number of edges that have each feature.
inline int64_t SparseAggregateRowFloats(const SparseAggregateUpdateProblem& problem) {
  return (2 * problem.in_width + 31) / 32 * 32;
}
inline size_t SparseAggregateScratchBytes(const SparseAggregateUpdateProblem& problem) {
  return static_cast<size_t>(std::min(problem.rows, kSparseAggregateBlocks) * SparseAggregateRowFloats(problem)) * 4;
}

cudaError_t LaunchSparseAggregateUpdate(const SparseAggregateUpdateArgs& args, const LaunchTarget& target,
                                        void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_SPARSE_DENSE_ROW_DENSE_ROW_H_

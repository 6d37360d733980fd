// SPDX-License-Identifier: Apache-2.0
// The launcher of balanced_rows (balanced_rows.cuh has the idea), free of device code.
#ifndef VICINAL_ENGINE_CUDA_BALANCED_ROWS_H_
#define VICINAL_ENGINE_CUDA_BALANCED_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/launch.h"
#include "engine/cuda/row_work.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// How a launch is laid out. All values give equal bits.
struct BalancedRowsConfig {
  int tile = 0;  // columns that a group of lanes takes: 32 or 64; 0: chosen from the shape
};

// Scratch of a launch with work lists.
inline size_t BalancedRowsScratchBytes(const AggregateProblem& problem) {
  return static_cast<size_t>(MaxParts(problem.edges) * problem.width) * sizeof(float);
}

// Without `work` every row is one item, however long: for adjacencies that are there for one run only.
// scratch: BalancedRowsScratchBytes(args.problem) where there is `work`.
cudaError_t LaunchBalancedRows(const AggregateArgs& args, const RowWorkLayout* work, const BalancedRowsConfig& config,
                               const LaunchCondition& condition, const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_BALANCED_ROWS_H_

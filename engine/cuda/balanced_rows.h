// SPDX-License-Identifier: Apache-2.0
// The launcher of balanced_rows (balanced_rows.cuh has the idea), free of device code.
#ifndef VICINAL_ENGINE_CUDA_BALANCED_ROWS_H_
#define VICINAL_ENGINE_CUDA_BALANCED_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/launch.h"
#include "engine/cuda/row_pieces.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// How a launch is laid out. All values give equal bits.
struct BalancedRowsConfig {
  int max_tile = 0;        // widest tile of columns that a block takes: 32, 64, 128, 256; 0: chosen from the shape
  bool split_rows = true;  // cut long rows into pieces; needs scratch

  friend bool operator==(const BalancedRowsConfig&, const BalancedRowsConfig&) = default;
};

// The unit that long rows are cut by (row_pieces.h). Narrow rows are read by few lanes, so their pieces are shorter.
inline int64_t BalancedRowsUnit(int64_t width) { return width <= 64 ? 128 : 256; }

inline PieceScratch BalancedRowsScratch(const AggregateProblem& problem) {
  return PieceScratch(problem.edges, BalancedRowsUnit(problem.width), problem.width, (problem.width + 31) / 32);
}

// scratch: BalancedRowsScratch(args.problem).bytes(), where rows are split.
cudaError_t LaunchBalancedRows(const AggregateArgs& args, const BalancedRowsConfig& config, const LaunchTarget& target,
                               void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_BALANCED_ROWS_H_

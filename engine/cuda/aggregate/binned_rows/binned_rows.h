// SPDX-License-Identifier: Apache-2.0
// The launcher of binned_rows, free of device code. The idea is in detail/binned_rows.cuh.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_BINNED_ROWS_H_
#define VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_BINNED_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/aggregate/rows/row_work.h"
#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// The configuration of a launch. All values of `tile` give equal bits.
struct BinnedRowsConfig {
  int tile = 0;  // columns per group of lanes: 32, 64 or, with 16 bits, 128; 0: chosen from the shape
  // Multiplies the sources by their weights first, in a copy in scratch. Applies to float32 sources with a weight per
  // source and no self term. Faster if each source is read many times, as a weight fetched per edge costs 32 bytes of
  // L2 traffic for its 4. Products are rounded before they are added, so the bits differ.
  bool scale_first = false;
};

// Limits of the product that may follow a sum (row_product.cuh). All inputs are in one tile of columns. With more
// outputs and many rows, a separate product is faster.
inline constexpr int64_t kMaxProductInputs = 64, kMaxProductOutputs = 16;
// Floats of its packed weights W [H, D]: [(D + 3) / 4][H][4], four inputs at a time, padded with zeros.
inline int64_t ProductFloats(int64_t out_width, int64_t in_width) { return (in_width + 3) / 4 * 4 * out_width; }

// True if sources are scaled first (a self term, which rules it out, is not considered).
bool ScalesFirst(const AggregateProblem& problem, const BinnedRowsConfig& config);

// Scratch bytes of a launch with a work list, or one that scales first.
size_t BinnedRowsScratchBytes(const AggregateProblem& problem, const BinnedRowsConfig& config);

// Without `work`, every row is one item, however long: for adjacencies that exist for one run only.
// scratch: BinnedRowsScratchBytes(args.problem, config) bytes if there is `work` or the launch scales first.
cudaError_t LaunchBinnedRows(const AggregateArgs& args, const RowWorkLayout* work, const BinnedRowsConfig& config,
                             const LaunchCondition& condition, const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_BINNED_ROWS_H_

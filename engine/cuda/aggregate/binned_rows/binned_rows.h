// SPDX-License-Identifier: Apache-2.0
// The launcher of binned_rows (binned_rows.cuh has the idea), free of device code.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_BINNED_ROWS_H_
#define VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_BINNED_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/aggregate/rows/row_work.h"
#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// How a launch is laid out. All values of `tile` give equal bits.
struct BinnedRowsConfig {
  int tile = 0;  // columns that a group of lanes takes: 32, 64, or 128 of 16 bits; 0: chosen from the shape
  // Weights of sources are multiplied with the sources beforehand, in a copy in scratch, where there are such weights
  // of rows in float32 and no own rows are added. Worth it where a source is read many times: a factor that is fetched
  // for every edge takes 32 bytes of the L2 for 4. Products are rounded before they are added, so bits differ.
  bool scale_first = false;
};

// What a sum may be multiplied by: all columns are in one tile, and with more outputs than so many a product of its own
// is faster where there are many rows (row_product.cuh).
inline constexpr int64_t kMaxProductInputs = 64, kMaxProductOutputs = 16;
// W [H, D] for it: inputs four by four, [(D + 3) / 4][H][4], zeros behind the last.
inline int64_t ProductFloats(int64_t out_width, int64_t in_width) { return (in_width + 3) / 4 * 4 * out_width; }

// Whether `config` has that effect, but for own rows.
bool ScalesFirst(const AggregateProblem& problem, const BinnedRowsConfig& config);

// Scratch of a launch with work lists, or that scales first.
size_t BinnedRowsScratchBytes(const AggregateProblem& problem, const BinnedRowsConfig& config);

// Without `work` every row is one item, however long: for adjacencies that are there for one run only.
// scratch: BinnedRowsScratchBytes(args.problem, config) where there is `work` or it scales first.
cudaError_t LaunchBinnedRows(const AggregateArgs& args, const RowWorkLayout* work, const BinnedRowsConfig& config,
                             const LaunchCondition& condition, const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_BINNED_ROWS_H_

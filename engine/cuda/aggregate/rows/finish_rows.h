// SPDX-License-Identifier: Apache-2.0
// Passes over whole matrices around aggregations that somebody else added up: what a kernel of ours does in its loads
// and stores.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_FINISH_ROWS_H_
#define VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_FINISH_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Sums of parts of the rows, each of `block_rows` rows: pieces [first[b], first[b + 1]) of `sums`
// [pieces, block_rows, stride] belong to rows from b * block_rows on.
struct RowPieces {
  const float* sums = nullptr;  // null: none
  const int32_t* first = nullptr;
  int32_t block_rows = 0;
  int32_t stride = 0;
};

// args.dst = mean, self term and epilogue of `sums` [R, D], rows `stride` floats apart, with `pieces` joined in order;
// of minima, what is joined are maxima of negated messages. `sums` may be null, where pieces are all there is, and may
// be args.dst, unless that is the residual as well.
cudaError_t LaunchFinishRows(const AggregateArgs& args, const float* sums, int64_t stride, const RowPieces& pieces,
                             const LaunchCondition& condition, const LaunchTarget& target);

// The sources of `args` in float32, times their factors where they have any, each product rounded.
cudaError_t LaunchCopySources(const AggregateArgs& args, const MatrixView& dst, const LaunchTarget& target);

// The bytes of such a copy whose rows begin at multiples of 16 bytes.
int64_t ScaledSourcesBytes(const AggregateProblem& problem);

// Makes it at `copy`, of sources of float32 that have factors and are not added as own rows. What is left to do is
// *args, a sum without factors, in *target, where it may begin before the copy has ended.
cudaError_t LaunchScaleFirst(void* copy, AggregateArgs* args, LaunchTarget* target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_FINISH_ROWS_H_

// SPDX-License-Identifier: Apache-2.0
// Passes over whole matrices before and after aggregations whose kernel only adds (cuSPARSE, for example). They do what
// our own kernels do in their loads and stores.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_FINISH_ROWS_H_
#define VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_FINISH_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Partial sums of blocks of rows: pieces [first[b], first[b + 1]) of `sums` [pieces, block_rows, stride] belong to rows
// [b * block_rows, (b + 1) * block_rows).
struct RowPieces {
  const float* sums = nullptr;  // null: no partial sums
  const int32_t* first = nullptr;
  int32_t block_rows = 0;
  int32_t stride = 0;
};

// args.dst = mean, self term and epilogue of `sums` [R, D] plus `pieces`, reduced in order. Rows of `sums` are `stride`
// floats apart. For minima, both hold maxima of negated messages. `sums` may be null if there are pieces, and may be
// args.dst unless that is also the residual.
cudaError_t LaunchFinishRows(const AggregateArgs& args, const float* sums, int64_t stride, const RowPieces& pieces,
                             const LaunchCondition& condition, const LaunchTarget& target);

// dst = the sources of `args` in float32, times their factors if there are any. Each product is rounded.
cudaError_t LaunchCopySources(const AggregateArgs& args, const MatrixView& dst, const LaunchTarget& target);

// Bytes of such a copy, whose rows are aligned to 16 bytes.
int64_t ScaledSourcesBytes(const AggregateProblem& problem);

// Scales the sources into `copy` [ScaledSourcesBytes()] and replaces them in *args, which is then a sum without
// factors. Sets target->overlap, so that the sum may start before the copy has ended. REQUIRES: float32 sources with
// factors, no self term.
cudaError_t LaunchScaleFirst(void* copy, AggregateArgs* args, LaunchTarget* target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_FINISH_ROWS_H_

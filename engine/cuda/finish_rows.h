// SPDX-License-Identifier: Apache-2.0
// Passes over whole matrices around aggregations that somebody else added up: what a kernel of ours does in its loads
// and stores.
#ifndef VICINAL_ENGINE_CUDA_FINISH_ROWS_H_
#define VICINAL_ENGINE_CUDA_FINISH_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// args.dst = mean, self term and epilogue of `sums` [R, D], rows `stride` floats apart; sums and means only. `sums` may
// be args.dst, unless that is the addend as well.
cudaError_t LaunchFinishRows(const AggregateArgs& args, const float* sums, int64_t stride, const LaunchTarget& target);

// dst[j] = scale[j] * src[j]; a copy where `scale` is null.
cudaError_t LaunchScaleRows(const ConstMatrixView& src, const float* scale, const MatrixView& dst,
                            const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_FINISH_ROWS_H_

// SPDX-License-Identifier: Apache-2.0
// The launcher of row-wise work (rowwise.cu), free of device code.
#ifndef VICINAL_ENGINE_CUDA_ROWWISE_ROWWISE_H_
#define VICINAL_ENGINE_CUDA_ROWWISE_ROWWISE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Parts that a segment is cut into for the moments of kGraphNorm: always as many, so that a graph's bits do not depend
// on its batch.
inline constexpr int kMomentParts = 64;
// Most segments whose moments are kept at once; more are done in rounds, so that scratch does not depend on a number
// known only when running.
inline constexpr int64_t kMomentSegments = 1024;

inline size_t RowwiseScratchBytes(const RowwiseProblem& problem) {
  return problem.kind == RowwiseKind::kGraphNorm ? kMomentSegments * kMomentParts * 2 * sizeof(double) : 0;
}

cudaError_t LaunchRowwise(const RowwiseArgs& args, const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ROWWISE_ROWWISE_H_

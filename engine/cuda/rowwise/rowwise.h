// SPDX-License-Identifier: Apache-2.0
// The launcher of row-wise operations, free of device code. The idea is in rowwise.cu.
#ifndef VICINAL_ENGINE_CUDA_ROWWISE_ROWWISE_H_
#define VICINAL_ENGINE_CUDA_ROWWISE_ROWWISE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Number of parts of a segment for the moments of kGraphNorm. Constant, so that a graph's bits do not depend on its
// batch.
inline constexpr int kMomentParts = 64;
// Maximum segments whose moments are in scratch at once. More are processed in rounds, so that the size of scratch does
// not depend on the number of segments, which is known only at run time.
inline constexpr int64_t kMomentSegments = 1024;

inline size_t RowwiseScratchBytes(const RowwiseProblem& problem) {
  return problem.kind == RowwiseKind::kGraphNorm ? kMomentSegments * kMomentParts * 2 * sizeof(double) : 0;
}

cudaError_t LaunchRowwise(const RowwiseArgs& args, const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ROWWISE_ROWWISE_H_

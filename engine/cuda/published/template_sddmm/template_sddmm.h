// SPDX-License-Identifier: Apache-2.0
// The launcher of generalised SDDMM, free of device code. The idea is in template_sddmm.cu.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_TEMPLATE_SDDMM_TEMPLATE_SDDMM_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_TEMPLATE_SDDMM_TEMPLATE_SDDMM_H_

#include <cuda_runtime_api.h>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

inline constexpr int kScoreEdges = 32;  // adjacent edges per group of lanes

// With `tree`, a product is a tree reduction over adjacent lanes. Otherwise one thread computes it, with another order
// of additions.
cudaError_t LaunchEdgeScores(const EdgeScoresArgs& args, bool tree, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_TEMPLATE_SDDMM_TEMPLATE_SDDMM_H_

// SPDX-License-Identifier: Apache-2.0
// The launcher of neighbor_group, free of device code. The idea is in neighbor_group.cu.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_NEIGHBOR_GROUP_NEIGHBOR_GROUP_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_NEIGHBOR_GROUP_NEIGHBOR_GROUP_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/cuda/published/groups/neighbor_groups.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Scratch bytes: the partial sums of rows with groups in several blocks.
size_t NeighborGroupScratch(const AggregateProblem& problem, const NeighborGroupConfig& config);
cudaError_t LaunchNeighborGroup(const AggregateArgs& args, const NeighborGroupConfig& config,
                                const NeighborGroups& groups, const CarriedSums& carried, const LaunchTarget& target,
                                void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_NEIGHBOR_GROUP_NEIGHBOR_GROUP_H_

// SPDX-License-Identifier: Apache-2.0
// The launcher of neighbor_group_atomics, free of device code. The idea is in neighbor_group_atomics.cu.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_NEIGHBOR_GROUP_ATOMICS_NEIGHBOR_GROUP_ATOMICS_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_NEIGHBOR_GROUP_ATOMICS_NEIGHBOR_GROUP_ATOMICS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/cuda/published/groups/neighbor_groups.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// The method as the paper describes it, with atomic additions; sums and means only. `apart` disables its block-level
// optimisations: each group adds to global memory by itself.
size_t NeighborGroupAtomicsScratch(const AggregateProblem& problem);
cudaError_t LaunchNeighborGroupAtomics(const AggregateArgs& args, const NeighborGroupConfig& config,
                                       const NeighborGroups& groups, bool apart, const LaunchTarget& target,
                                       void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_NEIGHBOR_GROUP_ATOMICS_NEIGHBOR_GROUP_ATOMICS_H_

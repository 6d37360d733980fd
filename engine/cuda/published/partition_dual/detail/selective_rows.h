// SPDX-License-Identifier: Apache-2.0
// PCGCN's selective mode as published, over the edges outside dense blocks. Free of device code.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_DETAIL_SELECTIVE_ROWS_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_DETAIL_SELECTIVE_ROWS_H_

#include <cuda_runtime_api.h>

#include "engine/cuda/common/launch.h"
#include "engine/cuda/published/groups/neighbor_groups.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Sums of args.adjacency, to which `carried` is added; finishes the rows. Sum or mean.
cudaError_t LaunchSelectiveRows(const AggregateArgs& args, const CarriedSums& carried, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_DETAIL_SELECTIVE_ROWS_H_

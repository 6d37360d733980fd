// SPDX-License-Identifier: Apache-2.0
// Parts of the columns: FeatGraph's feature tiles (Hu et al., SC'20, section III-C) for any message function. A block
// reduces some columns of each result, so that what all blocks gather meanwhile fits the L2 cache. Host code.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_COLUMN_PARTS_H_
#define VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_COLUMN_PARTS_H_

#include <cstdint>

#include "engine/cuda/common/gpu_limits.h"
#include "engine/cuda/compile/fuse_program.h"

namespace vicinal::cuda {

// Columns of a part that are worth a trial for a compiled program with that many sources: the largest power of two
// whose sources fit the cache, at least 32. 0: parts cannot pay, as the sources fit whole, or as they are narrow, or as
// each part would compute products or gather wide rows again.
int32_t ColumnsInCache(const FusedProgram& program, int64_t sources, const GpuLimits& limits);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_COLUMN_PARTS_H_

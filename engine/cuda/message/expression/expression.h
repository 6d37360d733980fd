// SPDX-License-Identifier: Apache-2.0
// The launcher of edge_programs, free of device code.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_EXPRESSION_H_
#define VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_EXPRESSION_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/common/gpu_limits.h"
#include "engine/cuda/common/launch.h"
#include "engine/cuda/message/expression/tile_params.h"

namespace vicinal::cuda {

// What a configuration asks for; 0: the plan chooses.
struct ExpressionSettings {
  int tile = 0;         // edges; one that does not fit becomes the largest that does
  int64_t keys = 0;     // edges and rows per block
  int64_t columns = 0;  // of each result per block, rounded up to whole sectors; 0: all
};

// How a program is laid out over blocks.
struct ExpressionPlan {
  int tile = 64;               // edges: 16, 32 or 64
  int64_t shared_bytes = 0;    // of a block
  int64_t block_floats = 0;    // in global memory, of a block; 0: registers fit shared memory
  int64_t most_blocks = 0;     // with block_floats
  int64_t partial_floats = 0;  // of all pieces of long rows
  int64_t partial_stride = 0;  // of each
  int64_t cells = 0;
  int64_t tickets = 0;               // in scratch memory; 0: the context has enough
  int64_t keys_per_item = 0;         // of programs over edges
  int part_columns = kWholeResults;  // columns of each result that a block reduces
  int64_t parts = 1;
  int64_t part_items = 0;
  int64_t items = 0;  // of all parts

  size_t scratch_bytes() const {
    return static_cast<size_t>(partial_floats + tickets + block_floats * most_blocks) * sizeof(float);
  }
};

ExpressionPlan PlanExpression(const TileShape& shape, int64_t rows, int64_t edges, const ExpressionSettings& settings,
                              const GpuLimits& limits);
// Whether tiles of that many edges fit shared memory.
bool TileFits(const TileShape& shape, int tile, const GpuLimits& limits);

// Sets the parts of `params` that the plan and scratch memory of plan.scratch_bytes() bytes determine, and zeroes
// tickets in it.
cudaError_t PlaceExpression(const ExpressionPlan& plan, const LaunchTarget& target, void* scratch,
                            ExpressionParams* params);
// Interprets the program of `params`, to which the plan was applied.
cudaError_t LaunchInterpreter(const ExpressionParams& params, const ExpressionPlan& plan, const LaunchTarget& target);
// Launches a kernel that was compiled for the program (compile/compiled_kernels.h), for tiles of plan.tile edges.
cudaError_t LaunchCompiled(const void* function, const ExpressionParams& params, const ExpressionPlan& plan,
                           const LaunchTarget& target);
// Blocks of a launch.
int64_t ExpressionGrid(const ExpressionPlan& plan);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_EXPRESSION_H_

// SPDX-License-Identifier: Apache-2.0
// edge_programs: message functions as expressions, interpreted.
//
// Idea. The values of a tile of edges stand in registers that are columns in shared memory. A block carries out an
// instruction for the whole tile before the next begins, so that reading it costs nothing against its loop. Then the
// tile's messages are reduced row by row. Nothing of the size of the edges is written or read. Programs whose registers
// do not fit shared memory have them in global memory, with as many blocks as that allows.
// When it wins: where nothing compiled is at hand; functions that a fixed kernel has are lowered to that one.
// Traffic: edges * (8 + 4 * columns gathered + 4 * features read) bytes, rows * 4 * (columns of targets and results);
// registers are read and written in shared memory.
// Order of evaluation: expression_blocks.cuh. The bits are equal in every run, for every tile and in every subset of
// rows; there are no float atomics.
#include "engine/cuda/message/expression/detail/expression_blocks.cuh"
#include "engine/cuda/message/expression/expression.h"

namespace vicinal::cuda {
namespace {

template <int kTile>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    InterpretEdges(const __grid_constant__ ExpressionParams params) {
  RunOverEdges<InterpretedProgram, kTile>(params);
}

template <int kTile>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    InterpretRows(const __grid_constant__ ExpressionParams params) {
  RunOverRows<InterpretedProgram, kTile>(params);
}

template <int kTile>
cudaError_t Launch(const ExpressionParams& params, const ExpressionPlan& plan, const LaunchTarget& target) {
  const auto kernel = params.shape.over_edges ? &InterpretEdges<kTile> : &InterpretRows<kTile>;
  const cudaError_t error = AllowShared(kernel, plan.shared_bytes, target.limits);
  if (error != cudaSuccess) return error;
  kernel<<<static_cast<unsigned>(ExpressionGrid(plan)), kTileThreads, static_cast<size_t>(plan.shared_bytes),
           target.stream>>>(params);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchInterpreter(const ExpressionParams& params, const ExpressionPlan& plan, const LaunchTarget& target) {
  if (plan.tile == 64) return Launch<64>(params, plan, target);
  return plan.tile == 32 ? Launch<32>(params, plan, target) : Launch<16>(params, plan, target);
}

}  // namespace vicinal::cuda

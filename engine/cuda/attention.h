// SPDX-License-Identifier: Apache-2.0
// Launchers of fused attention (attention.cuh has the idea) and of the plain one, free of device code.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_H_
#define VICINAL_ENGINE_CUDA_ATTENTION_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/launch.h"
#include "engine/cuda/row_pieces.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Widest GATv2 head that the fused kernel holds in registers, in floats.
inline constexpr int64_t kMaxFusedHead = 128;

// The unit that long rows are cut by (row_pieces.h).
inline constexpr int64_t kAttentionUnit = 128;

inline int64_t NextPowerOfTwo(int64_t x) {
  int64_t power = 1;
  while (power < x) power *= 2;
  return power;
}

// Scratch: partial results of long rows (sums, and for each of the lanes of a row its shift and its denominator), then
// the heads before their mean.
struct AttentionScratch {
  int64_t max_lanes;   // lanes a row may need
  int64_t sum_floats;  // sums of a cell, before its shifts and denominators
  PieceScratch pieces;
  size_t heads_offset;
  size_t bytes;

  explicit AttentionScratch(const AttentionProblem& problem)
      : max_lanes(problem.heads * NextPowerOfTwo(problem.head_width)),
        sum_floats((problem.heads * problem.head_width + 3) / 4 * 4),
        pieces(problem.edges, kAttentionUnit, sum_floats + 2 * max_lanes, (max_lanes + 31) / 32),
        heads_offset((pieces.bytes() + 63) / 64 * 64),
        bytes(heads_offset +
              (problem.concat ? 0 : static_cast<size_t>(problem.rows * problem.heads * problem.head_width) * 4)) {}
};

// REQUIRES: kGat, or head_width <= kMaxFusedHead. scratch: AttentionScratch(args.problem).bytes.
cudaError_t LaunchFusedAttention(const AttentionArgs& args, const LaunchTarget& target, void* scratch);
// No limits, no scratch.
cudaError_t LaunchPlainAttention(const AttentionArgs& args, const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_H_

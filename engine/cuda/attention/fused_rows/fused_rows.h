// SPDX-License-Identifier: Apache-2.0
// The launcher of fused_rows, free of device code. The idea is in detail/fused_rows.cuh.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_FUSED_ROWS_H_
#define VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_FUSED_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/cuda/common/row_pieces.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// The unit, in edges, for cutting long rows (row_pieces.h).
inline constexpr int64_t kAttentionUnit = 128;

// The layout of lanes: `lanes` adjacent lanes cover a tile of columns, with `packs` packs of 1 or 4 floats each;
// `groups` such groups take a row's edges in turn.
struct AttentionShape {
  int lanes;
  int groups;
  int packs;

  constexpr int row_lanes() const { return lanes * groups; }
};
// Shapes for rows that can be read 16 bytes at a time.
inline constexpr AttentionShape kWideShapes[] = {
    {8, 1, 1}, {8, 4, 1}, {8, 1, 2}, {16, 1, 1}, {16, 2, 1}, {16, 1, 2}, {32, 1, 1}, {32, 1, 2},
};
// Shapes for other rows.
inline constexpr AttentionShape kNarrowShapes[] = {{32, 1, 1}, {32, 1, 4}};
// Columns of the narrowest tile, which bounds the number of tickets.
inline constexpr int kMinTile = 32;

// Scratch memory: partial results of long rows (sums, then each head's shift and denominator, then of dot products each
// head's sums of features), then the heads before they are averaged.
struct AttentionScratch {
  int64_t sum_floats;  // sums per cell; its shifts and denominators follow
  PieceScratch pieces;
  size_t heads_offset;
  size_t bytes;

  static int64_t FeatureSums(const AttentionProblem& problem) {
    return problem.kind == AttentionKind::kDot ? problem.heads * problem.edge_width : 0;
  }
  explicit AttentionScratch(const AttentionProblem& problem)
      : sum_floats((problem.heads * problem.head_width + 3) / 4 * 4),
        pieces(problem.edges, kAttentionUnit, sum_floats + 2 * problem.heads + FeatureSums(problem),
               (problem.heads * problem.head_width + kMinTile - 1) / kMinTile),
        heads_offset((pieces.bytes() + 63) / 64 * 64),
        bytes(heads_offset + (problem.concat || problem.heads == 1
                                  ? 0
                                  : static_cast<size_t>(problem.rows * problem.heads * problem.head_width) * 4)) {}
};

// Indices of a configuration's values: columns per tile and lanes per row. 0: chosen from the shape of the problem.
inline constexpr int kTileColumnsAt = 0, kRowLanesAt = 1;
// This value of the lanes per row selects fused_small_rows.cuh, in which the warps of a block share a long row. It
// needs GAT's scores and at most kSmallHeads heads per tile.
inline constexpr int kBlockLanes = 128, kSmallHeads = 8;

// scratch: AttentionScratch(args.problem).bytes.
cudaError_t LaunchFusedAttention(const AttentionArgs& args, const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_FUSED_ROWS_FUSED_ROWS_H_

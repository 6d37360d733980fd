// SPDX-License-Identifier: Apache-2.0
// Scratch of the vectorised attention: the same for all instruction sets, because plans reserve it before one is
// chosen.
#ifndef VICINAL_ENGINE_KERNELS_CPU_ATTENTION_SCRATCH_H_
#define VICINAL_ENGINE_KERNELS_CPU_ATTENTION_SCRATCH_H_

#include <cstdint>

#include "engine/kernels/operations.h"

namespace vicinal::internal {
// Edges whose scores are held at once: 8 KiB for 16 heads, a quarter of the first-level cache.
inline constexpr int64_t kChunk = 128;
inline constexpr int64_t kMaxLanes = 16;

// A thread's scratch, in floats: raw scores of a chunk, then scores, each with a vector of slack; then the row's
// weighted sums and slack, then AttentionFeatures'.
inline constexpr int64_t kScoreFloats = (kChunk + 1) * kMaxLanes;
inline int64_t WithSlack(int64_t floats) { return (floats + 2 * kMaxLanes - 1) / kMaxLanes * kMaxLanes; }
// With features of edges. Dot products: two rows of features per head; GATv2: the terms of one edge.
inline int64_t AttentionFeatureFloats(const AttentionProblem& problem) {
  const int64_t columns = problem.heads * problem.head_width;
  if (problem.edge_width == 0 || problem.kind == AttentionKind::kGat) return 0;
  if (problem.kind == AttentionKind::kGatV2) return WithSlack(columns);
  return 2 * WithSlack(problem.heads * problem.edge_width);
}
inline int64_t AttentionScratchFloats(const AttentionProblem& problem) {
  return 2 * kScoreFloats + WithSlack(problem.heads * problem.head_width) + AttentionFeatureFloats(problem);
}
// Of all threads together: a copy of W, for dot products.
inline int64_t TurnedWeightFloats(const AttentionProblem& problem) {
  if (problem.kind != AttentionKind::kDot) return 0;
  return problem.edge_width * problem.heads * problem.head_width;
}
}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_ATTENTION_SCRATCH_H_

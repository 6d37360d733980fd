// SPDX-License-Identifier: Apache-2.0
// Sizes of the vectorised message reduction that all instruction sets share: plans reserve its scratch before one is
// chosen, and bits must not depend on how edges are cut into blocks.
#ifndef VICINAL_ENGINE_KERNELS_CPU_MESSAGE_SCRATCH_H_
#define VICINAL_ENGINE_KERNELS_CPU_MESSAGE_SCRATCH_H_

#include <algorithm>
#include <cstdint>

#include "engine/kernels/operations.h"

namespace vicinal::internal {

// Edges of a row whose messages are reduced before they are added to the row's result.
inline constexpr int64_t kMessageBlock = 256;
// Outputs of a panel of packed weights.
inline constexpr int64_t kEdgePanel = 16;

// Edges that pass through the layers together, unless the configuration says otherwise: two blocks of messages 64 wide
// and the weights of one layer then fit a first-level cache and a part of the second.
inline constexpr int64_t kEdgesTogether = 96;

inline int64_t PaddedToPanel(int64_t width) { return (width + kEdgePanel - 1) / kEdgePanel * kEdgePanel; }

// Whether messages pass through scratch, some dozens of edges at a time.
inline bool InEdgeBlocks(const MessageReduceProblem& problem) {
  return problem.num_layers > 0 || problem.form != MessageForm::kPlain || problem.softmax;
}

// Columns of a row of scratch: the widest of z, features, and all layers' inputs and outputs.
inline int64_t MessageStride(const MessageReduceProblem& problem) {
  int64_t widest = std::max(problem.width, problem.term_width());
  if (problem.form == MessageForm::kMixture) widest = std::max({widest, problem.edge_width, problem.gaussians});
  for (int32_t l = 0; l < problem.num_layers; ++l) widest = std::max(widest, problem.out_widths[l]);
  return PaddedToPanel(widest);
}

inline int64_t EdgesTogether(const KernelConfig& config) {
  return config.values[1] > 0 ? config.values[1] : kEdgesTogether;
}

// Rows of numbers that a reduction carries: a sum or an extreme; for a softmax the largest score, the sum of weights
// and the weighted sum.
inline int64_t ReductionRows(const MessageReduceProblem& problem) { return problem.softmax ? 3 : 1; }

// A thread's scratch, in floats: two blocks of messages, between which layers alternate, then the reduction of a row so
// far and that of its current block. For products of coefficients and rows, a block of coefficients and two such sums.
inline int64_t MessageScratchFloats(const MessageReduceProblem& problem, const KernelConfig& config) {
  if (!InEdgeBlocks(problem)) return 0;
  if (problem.form == MessageForm::kOuter) {
    const int64_t coefficients = problem.coefficients();
    return EdgesTogether(config) * PaddedToPanel(coefficients) + 2 * coefficients * PaddedToPanel(problem.width);
  }
  return (2 * EdgesTogether(config) + 2 * ReductionRows(problem)) * MessageStride(problem);
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_MESSAGE_SCRATCH_H_

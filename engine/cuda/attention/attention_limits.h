// SPDX-License-Identifier: Apache-2.0
// The size limits of the attention kernels.
#ifndef VICINAL_ENGINE_CUDA_ATTENTION_ATTENTION_LIMITS_H_
#define VICINAL_ENGINE_CUDA_ATTENTION_ATTENTION_LIMITS_H_

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

inline Refusal WhyAttentionUnsupported(const AttentionProblem& problem) {
  constexpr int64_t kMinCellEdges = 128;  // edges of a cell of a long row (kAttentionUnit)
  if (problem.heads * problem.head_width > kMaxWidth) return absl::StrCat("only widths up to ", kMaxWidth);
  if (problem.edge_width > kMaxWidth) return absl::StrCat("only up to ", kMaxWidth, " features of an edge");
  if (problem.rows >= kMaxItems || problem.edges / kMinCellEdges >= kMaxItems)
    return "only graphs of fewer than 2^31 rows and 2^38 edges";
  return {};
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_ATTENTION_ATTENTION_LIMITS_H_

// SPDX-License-Identifier: Apache-2.0
// fused_rows for dot products as scores (TransformerConv: Shi et al. 2021).
#include "engine/cuda/attention/fused_rows/detail/fused_rows.cuh"

namespace vicinal::cuda {

cudaError_t LaunchDot(const AttentionParams& params, int vec, const AttentionShape& shape, cudaStream_t stream) {
  return LaunchAttentionKind<AttentionKind::kDot>(params, vec, shape, stream);
}

}  // namespace vicinal::cuda

// SPDX-License-Identifier: Apache-2.0
// fused_rows for GAT's scores (Velickovic et al. 2018).
#include "engine/cuda/attention.cuh"

namespace vicinal::cuda {

cudaError_t LaunchGat(const AttentionParams& params, int vec, bool long_rows, cudaStream_t stream) {
  if (vec == 4) return LaunchAttentionLanes<AttentionKind::kGat, 4>(params, 1, long_rows, stream);
  return LaunchAttentionLanes<AttentionKind::kGat, 1>(params, 1, long_rows, stream);
}

}  // namespace vicinal::cuda

// SPDX-License-Identifier: Apache-2.0
// fused_rows for GATv2's scores (Brody et al. 2022).
#include "engine/cuda/attention.cuh"

namespace vicinal::cuda {

cudaError_t LaunchGatV2(const AttentionParams& params, int vec, int packs, bool long_rows, cudaStream_t stream) {
  if (vec == 4) return LaunchAttentionLanes<AttentionKind::kGatV2, 4>(params, packs, long_rows, stream);
  return LaunchAttentionLanes<AttentionKind::kGatV2, 1>(params, packs, long_rows, stream);
}

}  // namespace vicinal::cuda

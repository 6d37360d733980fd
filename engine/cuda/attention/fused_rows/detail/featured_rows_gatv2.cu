// SPDX-License-Identifier: Apache-2.0
// fused_rows for GATv2's scores with features of edges.
#include "engine/cuda/attention/fused_rows/detail/fused_rows.cuh"

namespace vicinal::cuda {

cudaError_t LaunchFeaturedGatV2(const AttentionParams& params, int vec, const AttentionShape& shape,
                                cudaStream_t stream) {
  return LaunchAttentionKind<AttentionKind::kGatV2, true>(params, vec, shape, stream);
}

}  // namespace vicinal::cuda

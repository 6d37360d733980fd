// SPDX-License-Identifier: Apache-2.0
// The launch of fused_small_rows.cuh for each tile and number of heads.
#include "engine/cuda/attention/fused_rows/detail/fused_small_rows.cuh"

namespace vicinal::cuda {
namespace {

template <int kLanes, int kHeads>
cudaError_t LaunchSmallLayout(const AttentionParams& params, bool overlap, cudaStream_t stream) {
  using Layout = AttentionLayout<AttentionKind::kGat, 4, kLanes, 32 / kLanes, 1>;
  const int64_t columns = int64_t{params.work.heads} * params.work.head_width;
  const int64_t blocks = (params.parts.cells + kSmallWarps - 1) / kSmallWarps +
                         (params.work.adjacency.rows + kSmallWarps - 1) / kSmallWarps;
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>((columns + Layout::kTile - 1) / Layout::kTile));
  return LaunchOverlapping(overlap, SmallAttention<Layout, kHeads>, grid, kAttentionThreads, stream, params);
}

template <int kLanes>
cudaError_t LaunchSmallHeads(const AttentionParams& params, bool overlap, cudaStream_t stream) {
  if (params.work.tile_heads == 1) return LaunchSmallLayout<kLanes, 1>(params, overlap, stream);
  if (params.work.tile_heads == 2) return LaunchSmallLayout<kLanes, 2>(params, overlap, stream);
  if (params.work.tile_heads <= 4) return LaunchSmallLayout<kLanes, 4>(params, overlap, stream);
  return LaunchSmallLayout<kLanes, 8>(params, overlap, stream);
}

}  // namespace

cudaError_t LaunchSmallGat(const AttentionParams& params, int tile, bool overlap, cudaStream_t stream) {
  switch (tile) {
    case 32:
      return LaunchSmallHeads<8>(params, overlap, stream);
    case 64:
      return LaunchSmallHeads<16>(params, overlap, stream);
    default:
      return LaunchSmallHeads<32>(params, overlap, stream);
  }
}

}  // namespace vicinal::cuda

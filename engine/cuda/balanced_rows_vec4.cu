// SPDX-License-Identifier: Apache-2.0
// balanced_rows in packs of 16 bytes: sources that are aligned to 16 bytes, with a stride that is a multiple of 4.
#include "engine/cuda/balanced_rows.cuh"

namespace vicinal::cuda {

cudaError_t LaunchBalancedRowsVec4(const BalancedRowsParams& params, int tile, cudaStream_t stream) {
  if (tile <= 4) return LaunchLayout<RowLayout<4, 1, 1>>(params, stream);
  if (tile <= 8) return LaunchLayout<RowLayout<4, 2, 1>>(params, stream);
  if (tile <= 16) return LaunchLayout<RowLayout<4, 4, 1>>(params, stream);
  if (tile <= 32) return LaunchLayout<RowLayout<4, 8, 1>>(params, stream);
  if (tile <= 64) return LaunchLayout<RowLayout<4, 16, 1>>(params, stream);
  if (tile <= 128) return LaunchLayout<RowLayout<4, 32, 1>>(params, stream);
  return LaunchLayout<RowLayout<4, 32, 2>>(params, stream);
}

}  // namespace vicinal::cuda

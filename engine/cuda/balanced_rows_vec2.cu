// SPDX-License-Identifier: Apache-2.0
// balanced_rows in packs of 8 bytes: sources of even stride, such as reddit's 602 features.
#include "engine/cuda/balanced_rows.cuh"

namespace vicinal::cuda {

cudaError_t LaunchBalancedRowsVec2(const BalancedRowsParams& params, int tile, cudaStream_t stream) {
  if (tile <= 16) return LaunchLayout<RowLayout<2, 8, 1>>(params, stream);
  if (tile <= 32) return LaunchLayout<RowLayout<2, 16, 1>>(params, stream);
  if (tile <= 64) return LaunchLayout<RowLayout<2, 32, 1>>(params, stream);
  return LaunchLayout<RowLayout<2, 32, 2>>(params, stream);
}

}  // namespace vicinal::cuda

// SPDX-License-Identifier: Apache-2.0
// balanced_rows float by float: odd strides and slices of columns that begin anywhere.
#include "engine/cuda/balanced_rows.cuh"

namespace vicinal::cuda {

cudaError_t LaunchBalancedRowsVec1(const BalancedRowsParams& params, int tile, cudaStream_t stream) {
  if (tile <= 1) return LaunchLayout<RowLayout<1, 1, 1>>(params, stream);
  if (tile <= 4) return LaunchLayout<RowLayout<1, 4, 1>>(params, stream);
  if (tile <= 8) return LaunchLayout<RowLayout<1, 8, 1>>(params, stream);
  if (tile <= 16) return LaunchLayout<RowLayout<1, 16, 1>>(params, stream);
  if (tile <= 32) return LaunchLayout<RowLayout<1, 32, 1>>(params, stream);
  if (tile <= 64) return LaunchLayout<RowLayout<1, 32, 2>>(params, stream);
  return LaunchLayout<RowLayout<1, 32, 4>>(params, stream);
}

}  // namespace vicinal::cuda

// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/aggregate/binned_rows/detail/binned_rows.cuh"

namespace vicinal::cuda {

cudaError_t LaunchPlainSum(const RowsParams& params, int vec, int lanes, const LaunchTarget& target) {
  return LaunchFloatRows<PlainSum>(params, vec, lanes, target);
}

}  // namespace vicinal::cuda

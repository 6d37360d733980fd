// SPDX-License-Identifier: Apache-2.0
// 16-bit rows. Lanes load 16 bytes (8 elements) at a time, or 4 elements if rows are so narrow that lanes would be
// idle, or on small graphs without many warps (small_rows.cuh).
#include "engine/cuda/aggregate/binned_rows/detail/binned_rows.cuh"

namespace vicinal::cuda {
namespace {

template <class Element, class Mode>
cudaError_t LaunchElement(const RowsParams& params, int vec, int lanes, const LaunchTarget& target) {
  const bool small = params.work.num_short + params.work.num_blocks > 0;
  if (small && vec == 8) {
    return lanes <= 16 ? LaunchSmallLanes<Element, 8, 16, Mode>(params, target)
                       : LaunchSmallLanes<Element, 8, 32, Mode>(params, target);
  }
  if (small) return LaunchSmall<Element, Mode>(params, lanes, target);
  if (vec == 1) return LaunchLanes<Element, 1, 32, Mode>(params, target);
  if (vec == 4) return LaunchLanes<Element, 4, 4, Mode>(params, target);
  if (lanes <= 4) return LaunchLanes<Element, 8, 4, Mode>(params, target);
  if (lanes <= 8) return LaunchLanes<Element, 8, 8, Mode>(params, target);
  return LaunchLanes<Element, 8, 16, Mode>(params, target);
}

template <class Element>
cudaError_t LaunchReduce(const RowsParams& params, bool weighted, int vec, int lanes, const LaunchTarget& target) {
  if (params.out.extremum()) return LaunchElement<Element, Extremum>(params, vec, lanes, target);
  return weighted ? LaunchElement<Element, WeightedSum>(params, vec, lanes, target)
                  : LaunchElement<Element, PlainSum>(params, vec, lanes, target);
}

}  // namespace

cudaError_t LaunchNarrow(const RowsParams& params, bool weighted, int vec, int lanes, const LaunchTarget& target) {
  return params.source.rows.storage == Storage::kBfloat16 ? LaunchReduce<Bfloat16>(params, weighted, vec, lanes, target)
                                                          : LaunchReduce<Float16>(params, weighted, vec, lanes, target);
}

}  // namespace vicinal::cuda

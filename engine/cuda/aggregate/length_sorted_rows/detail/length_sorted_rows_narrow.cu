// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/aggregate/length_sorted_rows/detail/length_sorted_rows.cuh"

namespace vicinal::cuda {
namespace {

template <class Element>
cudaError_t LaunchElement(const LengthSortedLaunch& launch) {
  if (!launch.packed) return LaunchLengthSortedModes<Element, 1, 32>(launch);
  return launch.tile <= 32 ? LaunchLengthSortedModes<Element, 8, 4>(launch)
                           : LaunchLengthSortedModes<Element, 8, 8>(launch);
}

}  // namespace

cudaError_t LaunchLengthSortedNarrow(const LengthSortedLaunch& launch) {
  return launch.params.source.rows.storage == Storage::kBfloat16 ? LaunchElement<Bfloat16>(launch)
                                                                 : LaunchElement<Float16>(launch);
}

}  // namespace vicinal::cuda

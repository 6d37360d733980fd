// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/abreast_rows.cuh"

namespace vicinal::cuda {
namespace {

template <class Element>
cudaError_t LaunchElement(const AbreastLaunch& launch) {
  if (!launch.packed) return LaunchAbreastModes<Element, 1, 32>(launch);
  return launch.tile <= 32 ? LaunchAbreastModes<Element, 8, 4>(launch) : LaunchAbreastModes<Element, 8, 8>(launch);
}

}  // namespace

cudaError_t LaunchAbreastNarrow(const AbreastLaunch& launch) {
  return launch.params.src.storage == Storage::kBfloat16 ? LaunchElement<Bfloat16>(launch)
                                                         : LaunchElement<Float16>(launch);
}

}  // namespace vicinal::cuda

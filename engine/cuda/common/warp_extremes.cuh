// SPDX-License-Identifier: Apache-2.0
// Warp-wide maximum and minimum of an integer. One instruction since compute capability 8.0, five shuffles before.
#ifndef VICINAL_ENGINE_CUDA_COMMON_WARP_EXTREMES_CUH_
#define VICINAL_ENGINE_CUDA_COMMON_WARP_EXTREMES_CUH_

#include "engine/cuda/common/hardware.h"

namespace vicinal::cuda {

// To be called by all lanes.
__device__ inline int WarpMax(int x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#pragma unroll
  for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) x = max(x, __shfl_xor_sync(kWholeWarp, x, distance));
  return x;
#else
  return __reduce_max_sync(kWholeWarp, x);
#endif
}
__device__ inline int WarpMin(int x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#pragma unroll
  for (int distance = kWarpLanes / 2; distance > 0; distance /= 2) x = min(x, __shfl_xor_sync(kWholeWarp, x, distance));
  return x;
#else
  return __reduce_min_sync(kWholeWarp, x);
#endif
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_WARP_EXTREMES_CUH_

// SPDX-License-Identifier: Apache-2.0
// Masks of edges as a factor of products on tensor cores.
#ifndef VICINAL_ENGINE_CUDA_COMMON_MASK_PAIR_CUH_
#define VICINAL_ENGINE_CUDA_COMMON_MASK_PAIR_CUH_

#include <cstdint>

namespace vicinal::cuda {

// The two lowest bits as a pair of bfloat16, 0 or 1 each.
__device__ inline uint32_t PairOfBits(uint32_t bits) { return ((bits & 1u) | (bits & 2u) << 15) * 0x3f80u; }

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_MASK_PAIR_CUH_

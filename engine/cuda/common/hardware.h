// SPDX-License-Identifier: Apache-2.0
// Sizes that are the hardware's, not ours (CUDA C++ Programming Guide, technical specifications of compute capability
// 9.0).
#ifndef VICINAL_ENGINE_CUDA_COMMON_HARDWARE_H_
#define VICINAL_ENGINE_CUDA_COMMON_HARDWARE_H_

namespace vicinal::cuda {

inline constexpr int kWarpLanes = 32;
// The lanes that shuffles and votes of a whole warp name.
inline constexpr unsigned kWholeWarp = ~0u;

// Bytes of shared memory that a block may have. A multiprocessor has kSystemSharedBytes more, of which each block takes
// as many beside its own.
inline constexpr int kMaxSharedBytes = 227 << 10;
inline constexpr int kSystemSharedBytes = 1 << 10;

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_HARDWARE_H_

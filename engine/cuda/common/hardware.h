// SPDX-License-Identifier: Apache-2.0
// Sizes given by the hardware (CUDA C++ Programming Guide, technical specifications of compute capability 9.0).
#ifndef VICINAL_ENGINE_CUDA_COMMON_HARDWARE_H_
#define VICINAL_ENGINE_CUDA_COMMON_HARDWARE_H_

namespace vicinal::cuda {

inline constexpr int kWarpLanes = 32;
// The mask of all lanes, for shuffles and votes.
inline constexpr unsigned kWholeWarp = ~0u;

// The most bytes of shared memory that a block may have. Each block takes kSystemSharedBytes in addition, and a
// multiprocessor has kSystemSharedBytes more than kMaxSharedBytes.
inline constexpr int kMaxSharedBytes = 227 << 10;
inline constexpr int kSystemSharedBytes = 1 << 10;

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_HARDWARE_H_

// SPDX-License-Identifier: Apache-2.0
// Properties common to all GPUs, and what device code is compiled for (CUDA C++ Programming Guide, compute
// capabilities). Properties that differ are queried: gpu_limits.h.
#ifndef VICINAL_ENGINE_CUDA_COMMON_HARDWARE_H_
#define VICINAL_ENGINE_CUDA_COMMON_HARDWARE_H_

namespace vicinal::cuda {

inline constexpr int kWarpLanes = 32;
// The mask of all lanes, for shuffles and votes.
inline constexpr unsigned kWholeWarp = ~0u;

// Maximum shared memory of a block on any GPU, in bytes: an upper bound for sizes known at compile time. The limit of
// the GPU in use is GpuLimits::block_shared_bytes.
inline constexpr int kMaxSharedBytes = 227 << 10;
// Bytes that the system reserves for each block, since compute capability 8.0.
inline constexpr int kSystemSharedBytes = 1 << 10;

// Compute capabilities, 10 * major + minor, that introduced instructions which kernels use.
inline constexpr int kAsyncCopies = 80;  // cp.async; tensor cores with bfloat16 and TF32; maxima that propagate NaN
inline constexpr int kBulkCopies = 90;   // cp.async.bulk and mbarrier; launches that overlap
inline constexpr int kOldestSupported = 75;

// The compute capability that this device code is compiled for; 0 in host code.
#ifdef __CUDA_ARCH__
inline constexpr int kCompiledFor = __CUDA_ARCH__ / 10;
#else
inline constexpr int kCompiledFor = 0;
#endif
// Hopper's matrix instructions (wgmma) exist only in code for the target sm_90a.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
inline constexpr bool kCompiledWithWgmma = true;
#else
inline constexpr bool kCompiledWithWgmma = false;
#endif

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_HARDWARE_H_

// SPDX-License-Identifier: Apache-2.0
// What is the same on all GPUs, and what device code is compiled for (CUDA C++ Programming Guide, compute
// capabilities). What differs between GPUs is asked of them: gpu_limits.h.
#ifndef VICINAL_ENGINE_CUDA_COMMON_HARDWARE_H_
#define VICINAL_ENGINE_CUDA_COMMON_HARDWARE_H_

namespace vicinal::cuda {

inline constexpr int kWarpLanes = 32;
// The mask of all lanes, for shuffles and votes.
inline constexpr unsigned kWholeWarp = ~0u;

// The most bytes of shared memory that a block may have on any GPU: an upper bound for sizes known at compile time.
// GpuLimits::block_shared_bytes has the GPU's own.
inline constexpr int kMaxSharedBytes = 227 << 10;
// What the system takes of each block in addition, since compute capability 8.0.
inline constexpr int kSystemSharedBytes = 1 << 10;

// Compute capabilities, 10 * major + minor, that brought instructions which kernels use.
inline constexpr int kAsyncCopies = 80;  // cp.async; tensor cores with bfloat16 and TF32; maxima that keep NaN
inline constexpr int kBulkCopies = 90;   // cp.async.bulk and mbarrier; launches that overlap
inline constexpr int kOldestSupported = 75;

// The compute capability that this device code is compiled for; 0 in host code.
#ifdef __CUDA_ARCH__
inline constexpr int kCompiledFor = __CUDA_ARCH__ / 10;
#else
inline constexpr int kCompiledFor = 0;
#endif
// Hopper's own matrix instructions exist in code for the target sm_90a alone.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
inline constexpr bool kCompiledWithWgmma = true;
#else
inline constexpr bool kCompiledWithWgmma = false;
#endif

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_HARDWARE_H_

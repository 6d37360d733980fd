// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies from global to shared memory (cp.async). Code for GPUs before compute capability 8.0 copies
// synchronously, through registers, with equal results.
#ifndef VICINAL_ENGINE_CUDA_COMMON_ASYNC_COPY_CUH_
#define VICINAL_ENGINE_CUDA_COMMON_ASYNC_COPY_CUH_

#include <cstdint>
#include <type_traits>

#include "engine/cuda/common/hardware.h"

namespace vicinal::cuda {

// CopyAsync with ordinary loads and stores. Elements have at least 2 bytes, so `valid` is a multiple of 2.
template <int kBytes>
__device__ inline void CopySynchronously(void* shared, const void* global, int valid) {
  if (valid >= kBytes) {
    using Unit = std::conditional_t<kBytes == 16, uint4, std::conditional_t<kBytes == 8, uint2, uint32_t>>;
    *static_cast<Unit*>(shared) = *static_cast<const Unit*>(global);
    return;
  }
#pragma unroll
  for (int i = 0; i < kBytes / 2; ++i) {
    const uint16_t* const half = static_cast<const uint16_t*>(global) + i;
    static_cast<uint16_t*>(shared)[i] = 2 * i < valid ? *half : uint16_t{0};
  }
}

// Copies kBytes bytes (4, 8 or 16) to `shared`. Both addresses are aligned to kBytes. Only the first `valid` bytes are
// read; the others become zeros.
template <int kBytes>
__device__ inline void CopyAsync(void* shared, const void* global, int valid) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  if constexpr (kCompiledFor < kAsyncCopies) {
    CopySynchronously<kBytes>(shared, global, valid);
  } else if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(valid) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(kBytes), "r"(valid)
                 : "memory");
  }
}

// Makes a group of the copies that this thread started since its last call.
__device__ inline void CommitCopies() {
  if constexpr (kCompiledFor >= kAsyncCopies) asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits for all groups of this thread except the latest kPending.
template <int kPending>
__device__ inline void AwaitCopies() {
  if constexpr (kCompiledFor >= kAsyncCopies) asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Prefetches the cache line of `p` into the L2 cache.
__device__ inline void Prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_ASYNC_COPY_CUH_

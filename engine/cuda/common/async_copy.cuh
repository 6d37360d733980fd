// SPDX-License-Identifier: Apache-2.0
// Copies from global to shared memory that threads start and wait for later.
#ifndef VICINAL_ENGINE_CUDA_COMMON_ASYNC_COPY_CUH_
#define VICINAL_ENGINE_CUDA_COMMON_ASYNC_COPY_CUH_

namespace vicinal::cuda {

// kBytes (4, 8 or 16) to `shared`, both aligned to that; the first `valid` bytes are read, the rest are zeros.
template <int kBytes>
__device__ inline void CopyAsync(void* shared, const void* global, int valid) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(valid) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(kBytes), "r"(valid)
                 : "memory");
  }
}

// What this thread started since the last call is a group.
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all groups of this thread but the latest kPending.
template <int kPending>
__device__ inline void AwaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Has the L2 fetch what lies there.
__device__ inline void Prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_ASYNC_COPY_CUH_

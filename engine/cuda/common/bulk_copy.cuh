// SPDX-License-Identifier: Apache-2.0
// Bulk copies to shared memory (compute capability 9.0 and later), which one thread starts for its whole block, and the
// shared-memory barriers that signal their completion. Kernels that use them have a body only in code for such GPUs
// (kCompiledFor), and are launched only there (GpuLimits::bulk_copies).
#ifndef VICINAL_ENGINE_CUDA_COMMON_BULK_COPY_CUH_
#define VICINAL_ENGINE_CUDA_COMMON_BULK_COPY_CUH_

#include <cuda.h>

#include <cstdint>

namespace vicinal::cuda {

__device__ inline uint32_t SharedAddress(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// Alignment of swizzled boxes in shared memory: 8 rows of 128 bytes.
inline constexpr int kBoxAlignment = 1024;

// The first such address in `shared`, less than kBoxAlignment bytes from its start. Computed as an offset: of a rounded
// pointer the compiler would not know that it points to shared memory. The alignment is stated explicitly.
__device__ inline char* FirstBox(char* shared) {
  char* const first = shared + (kBoxAlignment - SharedAddress(shared) % kBoxAlignment) % kBoxAlignment;
  return static_cast<char*>(__builtin_assume_aligned(first, kBoxAlignment));
}

__device__ inline void InitBarrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
__device__ inline void FenceBarrierInit() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Arrives at the barrier, whose phase then ends only when `bytes` more bytes have been copied to shared memory.
__device__ inline void ArriveExpecting(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void AwaitPhase(uint32_t barrier, int parity) {
  asm volatile(
      "{\n.reg .pred p;\nAGAIN_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra DONE_%=;\nbra AGAIN_%=;\nDONE_%=:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// Starts a copy of `bytes` bytes (a multiple of 16) from global to shared memory, which `barrier` counts.
__device__ inline void CopyBulk(uint32_t shared, const void* global, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
               "l"(global), "r"(bytes), "r"(barrier)
               : "memory");
}
// Starts a copy of a box of a matrix, or of a stack of matrices, as `map` (tensor_map.h) describes it. Coordinates are
// elements, innermost first. Elements outside of the matrix arrive as zeros, and `barrier` counts them like the others.
__device__ inline void CopyBox(uint32_t shared, const CUtensorMap& map, int x, int y, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(shared),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}
__device__ inline void CopyBox(uint32_t shared, const CUtensorMap& map, int x, int y, int z, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(shared),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_BULK_COPY_CUH_

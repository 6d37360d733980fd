// SPDX-License-Identifier: Apache-2.0
// What launchers need to know about a GPU: which instructions its code may use, and the capacity of blocks and
// multiprocessors. Queried when the device is opened. In a MIG slice, all numbers are those of the slice.
#ifndef VICINAL_ENGINE_CUDA_COMMON_GPU_LIMITS_H_
#define VICINAL_ENGINE_CUDA_COMMON_GPU_LIMITS_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "engine/cuda/common/hardware.h"

namespace vicinal::cuda {

// The defaults are those of an H100 or H200.
struct GpuLimits {
  int capability = 90;  // compute capability of the GPU, 10 * major + minor
  // The compute capability that the loaded code was compiled for. Lower than the GPU's if the driver compiled the PTX
  // of an older one. Kernels may use only instructions that both have.
  int code = 90;
  int multiprocessors = 132;
  int block_shared_bytes = kMaxSharedBytes;
  int multiprocessor_shared_bytes = kMaxSharedBytes + kSystemSharedBytes;
  int multiprocessor_threads = 2048;
  int64_t l2_bytes = int64_t{50} << 20;

  bool async_copies() const { return code >= kAsyncCopies; }
  // Tensor-core products of bfloat16, TF32, and float16 with a depth of 16.
  bool narrow_products() const { return code >= kAsyncCopies; }
  bool bulk_copies() const { return code >= kBulkCopies; }
  bool overlapping_launches() const { return code >= kBulkCopies; }
  bool wgmma() const { return capability == 90 && code == 90; }

  bool Fits(int64_t shared_bytes) const { return shared_bytes <= block_shared_bytes; }
  // Resident blocks per multiprocessor: as many as fit, at least 1 and at most `most`, which registers allow.
  int Resident(int threads, int64_t shared_bytes, int most) const {
    const int64_t by_shared = multiprocessor_shared_bytes / (shared_bytes + kSystemSharedBytes);
    return static_cast<int>(
        std::clamp<int64_t>(std::min<int64_t>(by_shared, multiprocessor_threads / threads), 1, most));
  }
};

// Allows `kernel` `bytes` bytes of dynamic shared memory. Every launch with more than the default 48 KiB needs it.
// Returns cudaErrorInvalidConfiguration if the limit per block is lower.
template <class Kernel>
cudaError_t AllowShared(Kernel* kernel, int64_t bytes, const GpuLimits& limits) {
  if (!limits.Fits(bytes)) return cudaErrorInvalidConfiguration;
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(bytes));
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_GPU_LIMITS_H_

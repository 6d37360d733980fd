// SPDX-License-Identifier: Apache-2.0
// What of a GPU launchers ask: which instructions its code may use, and how much fits a block and a multiprocessor.
// Queried when the device is opened. In a MIG slice all numbers are the slice's.
#ifndef VICINAL_ENGINE_CUDA_COMMON_GPU_LIMITS_H_
#define VICINAL_ENGINE_CUDA_COMMON_GPU_LIMITS_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "engine/cuda/common/hardware.h"

namespace vicinal::cuda {

// By default an H100's or H200's.
struct GpuLimits {
  int capability = 90;  // compute capability of the GPU, 10 * major + minor
  // The compute capability that the loaded code was compiled for: lower than the GPU's where the driver compiled the
  // PTX of an older one. Its instructions are those of both.
  int code = 90;
  int multiprocessors = 132;
  int block_shared_bytes = kMaxSharedBytes;
  int multiprocessor_shared_bytes = kMaxSharedBytes + kSystemSharedBytes;
  int multiprocessor_threads = 2048;
  int64_t l2_bytes = int64_t{50} << 20;

  bool async_copies() const { return code >= kAsyncCopies; }
  // Products of bfloat16, TF32 and 16 float16 at a time on tensor cores.
  bool narrow_products() const { return code >= kAsyncCopies; }
  bool bulk_copies() const { return code >= kBulkCopies; }
  bool overlapping_launches() const { return code >= kBulkCopies; }
  bool wgmma() const { return capability == 90 && code == 90; }

  bool Fits(int64_t shared_bytes) const { return shared_bytes <= block_shared_bytes; }
  // Blocks that a multiprocessor runs at a time: as many as have room, from 1 to `most`, which registers allow.
  int Resident(int threads, int64_t shared_bytes, int most) const {
    const int64_t by_shared = multiprocessor_shared_bytes / (shared_bytes + kSystemSharedBytes);
    return static_cast<int>(
        std::clamp<int64_t>(std::min<int64_t>(by_shared, multiprocessor_threads / threads), 1, most));
  }
};

// Lets `kernel` have `bytes` of dynamic shared memory, more than the 48 KiB that every block may have. All launches
// with more go through here. cudaErrorInvalidConfiguration: a block may not have as much.
template <class Kernel>
cudaError_t AllowShared(Kernel* kernel, int64_t bytes, const GpuLimits& limits) {
  if (!limits.Fits(bytes)) return cudaErrorInvalidConfiguration;
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(bytes));
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_GPU_LIMITS_H_

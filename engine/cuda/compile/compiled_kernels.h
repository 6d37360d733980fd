// SPDX-License-Identifier: Apache-2.0
// Kernels compiled for one program of messages each, in the background: from the directory of compiled kernels, or by a
// child process. One thread of this library compiles, one kernel at a time. Until a kernel is ready, and if it cannot
// be made, its program is interpreted, with equal bits.
#ifndef VICINAL_ENGINE_CUDA_COMPILE_COMPILED_KERNELS_H_
#define VICINAL_ENGINE_CUDA_COMPILE_COMPILED_KERNELS_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/mutex.h"
#include "engine/cuda/message/expression/encode_program.h"

namespace vicinal::cuda {

// Thread-safe. Lives as long as the process, as recordings may launch it.
class CompiledKernel {
 public:
  // Null: not yet, or never.
  const void* function() const { return function_.load(std::memory_order_acquire); }
  // Waits until it was made or refused.
  void Await() VICINAL_EXCLUDES(mutex_);
  // "compiled in 2.1 s", "from the directory of compiled kernels", or why it is interpreted.
  std::string Describe() VICINAL_EXCLUDES(mutex_);

 private:
  friend class CompiledKernels;
  void Finish(const void* function, std::string outcome) VICINAL_EXCLUDES(mutex_);

  std::atomic<const void*> function_{nullptr};
  Mutex mutex_;
  CondVar finished_;
  std::string outcome_ VICINAL_GUARDED_BY(mutex_);  // empty: not yet
};

// The kernel of `program` for tiles of `tile` edges and `shared_bytes` of shared memory, on the device `ordinal`. The
// same one for equal programs; its compilation begins with the first call.
std::shared_ptr<CompiledKernel> FindCompiledKernel(const TileProgram& program, int tile, int64_t shared_bytes,
                                                   int ordinal);

// Rises whenever a kernel becomes ready: launches recorded before may be made by a faster one.
uint64_t CompiledKernelsEpoch();

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMPILE_COMPILED_KERNELS_H_

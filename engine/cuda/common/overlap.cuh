// SPDX-License-Identifier: Apache-2.0
// Kernels of a recording that overlap (programmatic dependent launch). A small kernel spends most of its time waiting:
// for its launch, for its items, for their indices, and only then for rows that the kernel before it computed. All
// waits before the last can overlap with that kernel.
//
// A kernel launched this way starts when all blocks of the kernel before it have called TriggerNextLaunch() or have
// ended. At that time, no kernel of the same recording is known to have ended. So:
//  - Before AwaitPreviousKernels(), it reads only what no kernel of a recording writes: adjacencies, work lists,
//    weights, factors per node, the request's features. This is why only recordings overlap (LaunchTarget::overlap): a
//    recording consists of a plan's kernels, while a single launch may directly follow a kernel that writes those
//    inputs.
//  - Before AwaitPreviousKernels(), it does not write to global memory, as earlier kernels may still read it.
//  - Some thread of every launch calls AwaitPreviousKernels(), so that when a kernel has ended, all kernels before it
//    have ended.
//  - It does not read with __ldg what earlier kernels wrote, as the compiler may move an __ldg to before
//    AwaitPreviousKernels(). The compiler also moves __ldg to after it, so a load that must be issued before is a plain
//    load, which the compiler does not move.
// Other kernels are launched as usual and start when everything before them has ended. So do all kernels in code for
// GPUs before Hopper, which lack the feature.
#ifndef VICINAL_ENGINE_CUDA_COMMON_OVERLAP_CUH_
#define VICINAL_ENGINE_CUDA_COMMON_OVERLAP_CUH_

#include <cuda_runtime.h>

#include <cstddef>

#include "engine/cuda/common/hardware.h"
#include "engine/cuda/common/launch.h"

namespace vicinal::cuda {

// Lets the blocks of the next kernel start as soon as this kernel's blocks leave room for them.
__device__ inline void TriggerNextLaunch() {
  if constexpr (kCompiledFor >= kBulkCopies) cudaTriggerProgrammaticLaunchCompletion();
}

// Returns when all kernels before this one have ended and their writes are visible.
__device__ inline void AwaitPreviousKernels() {
  if constexpr (kCompiledFor >= kBulkCopies) cudaGridDependencySynchronize();
}

// Launches a kernel that follows the rules above. With `overlap`, it may start before the kernel before it has ended.
template <class... Parameters, class... Arguments>
cudaError_t LaunchOverlapping(bool overlap, void (*kernel)(Parameters...), dim3 grid, unsigned threads,
                              size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}
template <class... Parameters, class... Arguments>
cudaError_t LaunchOverlapping(bool overlap, void (*kernel)(Parameters...), dim3 grid, unsigned threads,
                              cudaStream_t stream, const Arguments&... arguments) {
  return LaunchOverlapping(overlap, kernel, grid, threads, size_t{0}, stream, arguments...);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_OVERLAP_CUH_

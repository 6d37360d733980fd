// SPDX-License-Identifier: Apache-2.0
// Kernels of a recording that overlap (programmatic dependent launch). A small kernel's time is mostly one wait after
// another: to be launched, for its items, for their indices, only then for rows that the kernel before it made. What
// comes before those rows can be waited for while that kernel still runs.
//
// A kernel that is launched so begins when all blocks of the one before it have called LetNextBegin(), or have ended.
// At that time nothing that was launched in the same recording need have ended, so:
//  - Until AwaitFormer() it reads only what no kernel of a recording writes: adjacencies, work lists, weights, numbers
//    per node, the request's features. This is why only recordings overlap (LaunchTarget::overlap): what runs in one is
//    a plan's kernels and nothing else, while launches one by one may come right after kernels that make those inputs.
//  - It writes nothing to memory before AwaitFormer(), for kernels before it may still read what lies there.
//  - Some thread of every launch calls AwaitFormer(), so that when a kernel has ended, all before it have.
//  - What former kernels wrote is not read by __ldg, which the compiler may move to before AwaitFormer(). It does move
//    them to after it: what is to be on its way before is read by plain loads, which stay where they stand.
// A kernel that knows nothing of all this is launched as ever, and begins when everything before it has ended.
#ifndef VICINAL_ENGINE_CUDA_COMMON_OVERLAP_CUH_
#define VICINAL_ENGINE_CUDA_COMMON_OVERLAP_CUH_

#include <cuda_runtime.h>

#include "engine/cuda/common/launch.h"

namespace vicinal::cuda {

// The next kernel may take the places that this one leaves from now on.
__device__ inline void LetNextBegin() { cudaTriggerProgrammaticLaunchCompletion(); }

// Returns when all kernels before this one have ended and what they wrote can be seen; at once where that is so anyway.
__device__ inline void AwaitFormer() { cudaGridDependencySynchronize(); }

// Launches a kernel that keeps the rules above; `overlap`: it may begin before the one before it has ended.
template <class... Parameters, class... Arguments>
cudaError_t LaunchOverlapping(bool overlap, void (*kernel)(Parameters...), dim3 grid, unsigned threads,
                              cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_OVERLAP_CUH_

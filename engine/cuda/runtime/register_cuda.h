// SPDX-License-Identifier: Apache-2.0
// The registration of the CUDA kernels.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_REGISTER_CUDA_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_REGISTER_CUDA_H_

#include "engine/cuda/runtime/cuda_device.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {

// Adds every kernel of the backend to the list of its operation, best first, with the limits of `device`. Null: the
// limits of an H100, without a device.
void RegisterCudaKernels(KernelRegistry& registry, CudaDevice* device);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_REGISTER_CUDA_H_

// SPDX-License-Identifier: Apache-2.0
// The one symbol of libvicinal_cuda.so that the engine looks up (engine/kernels/backend.h). The build id is a constant
// of this library, set at compile time: a call to the engine for it would compare the engine with itself.
#include <cuda_runtime_api.h>

#include "engine/cuda/runtime/cuda_device.h"
#include "engine/cuda/runtime/register_cuda.h"
#include "engine/kernels/backend.h"

namespace vicinal::cuda {
namespace {

// A missing driver counts as no GPU; the engine then runs on the CPU.
int DeviceCount() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

void RegisterKernels(KernelRegistry& registry, Device* device) {
  RegisterCudaKernels(registry, static_cast<CudaDevice*>(device));
}

}  // namespace
}  // namespace vicinal::cuda

extern "C" const vicinal::BackendTable* vicinal_backend() {
  static const vicinal::BackendTable table = {vicinal::kBackendInterfaceVersion,
                                              VICINAL_BUILD_ID,
                                              "cuda",
                                              &vicinal::cuda::DeviceCount,
                                              &vicinal::cuda::CudaDevice::Open,
                                              &vicinal::cuda::RegisterKernels};
  return &table;
}

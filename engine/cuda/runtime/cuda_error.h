// SPDX-License-Identifier: Apache-2.0
// Errors of the CUDA runtime as Status. Most of them end with the call that met them; sticky ones (a kernel that read
// where it must not, a device that fell off the bus) have spoilt the process's CUDA context for good: every later call
// fails, and only a restart mends it. Those carry the reason DEVICE_LOST, so that the server can leave readiness and
// end.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_CUDA_ERROR_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_CUDA_ERROR_H_

#include <cuda_runtime_api.h>

#include <string_view>

#include "engine/base/status.h"

namespace vicinal::cuda {

// Whether the process cannot use CUDA any more after `error`.
bool IsStickyError(cudaError_t error);

// OK for cudaSuccess; RESOURCE_EXHAUSTED when the device's memory is full; INTERNAL for the rest, reason DEVICE_LOST
// when sticky. `what` names the work that failed: "binned_rows", "copy to the device". Clears the runtime's last
// error, so that it is not reported twice.
Status CudaStatus(cudaError_t error, std::string_view what);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_CUDA_ERROR_H_

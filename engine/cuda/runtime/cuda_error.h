// SPDX-License-Identifier: Apache-2.0
// CUDA runtime errors as Status. Most errors concern only the call that returned them. Sticky ones (an illegal address,
// a lost device) corrupt the process's CUDA context: every later call fails, and only a restart of the process helps.
// They carry the reason DEVICE_LOST, so that the server can stop being ready and exit.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_CUDA_ERROR_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_CUDA_ERROR_H_

#include <cuda_runtime_api.h>

#include <string_view>

#include "engine/base/status.h"

namespace vicinal::cuda {

// True if the process cannot use CUDA any more after `error`.
bool IsStickyError(cudaError_t error);

// OK for cudaSuccess, RESOURCE_EXHAUSTED if device memory is full, otherwise INTERNAL, with the reason DEVICE_LOST for
// sticky errors. `what` names the failed work: "binned_rows", "copy to the device". Clears the runtime's last error, so
// that it is not reported twice.
Status CudaStatus(cudaError_t error, std::string_view what);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_CUDA_ERROR_H_

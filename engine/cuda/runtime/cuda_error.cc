// SPDX-License-Identifier: Apache-2.0
// The list of sticky errors follows the CUDA documentation of each code ("the context cannot be used", "the process
// must be terminated").
#include "engine/cuda/runtime/cuda_error.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/device/device.h"

namespace vicinal::cuda {

bool IsStickyError(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorDevicesUnavailable:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorContained:
      return true;
    default:
      return false;
  }
}

Status CudaStatus(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return OkStatus();
  cudaGetLastError();
  const std::string message =
      absl::StrCat(std::string(what), " failed: ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")");
  if (error == cudaErrorMemoryAllocation) {
    return ResourceExhausted("OUT_OF_MEMORY", absl::StrCat(message, "; free graphs or models, or retry"),
                             std::chrono::seconds(1));
  }
  ErrorDetail detail;
  detail.reason = IsStickyError(error) ? kDeviceLostReason : "CUDA_ERROR";
  return MakeError(StatusCode::kInternal, message, detail);
}

}  // namespace vicinal::cuda

// SPDX-License-Identifier: Apache-2.0
// Copies a host vector to a new buffer on the device.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_SEND_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_SEND_H_

#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"

namespace vicinal::cuda {

template <class T>
StatusOr<Buffer> Send(const std::vector<T>& host, Device& device) {
  VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(host.size() * sizeof(T)));
  VICINAL_RETURN_IF_ERROR(device.CopyFromHost(buffer.data(), host.data(), host.size() * sizeof(T)));
  return buffer;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_SEND_H_

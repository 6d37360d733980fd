// SPDX-License-Identifier: Apache-2.0
// Internal to this folder.
#ifndef VICINAL_ENGINE_PREPARED_UPLOAD_VECTOR_H_
#define VICINAL_ENGINE_PREPARED_UPLOAD_VECTOR_H_

#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"

namespace vicinal {

// A copy of `values` in memory of the device.
template <class T>
StatusOr<Buffer> UploadVector(const std::vector<T>& values, Device& device) {
  const size_t bytes = values.size() * sizeof(T);
  VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(bytes));
  if (bytes > 0) VICINAL_RETURN_IF_ERROR(device.CopyFromHost(buffer.data(), values.data(), bytes));
  return buffer;
}

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARED_UPLOAD_VECTOR_H_

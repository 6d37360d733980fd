// SPDX-License-Identifier: Apache-2.0
// Arrays of a graph in device memory: adjacencies, and numbers of nodes or edges. Immutable; handles share them.
#ifndef VICINAL_ENGINE_PREPARED_DEVICE_ARRAYS_H_
#define VICINAL_ENGINE_PREPARED_DEVICE_ARRAYS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/graph/csr.h"

namespace vicinal {

// An adjacency in device memory, in execution order.
class DeviceCsr {
 public:
  static StatusOr<std::shared_ptr<const DeviceCsr>> Upload(const Csr& csr, Device& device);
  // The rows of all `parts`, one after the other; `row_ptr` [rows + 1] is theirs together. Copies on the device. Where
  // some have values, those without get ones. REQUIRES: all have as many columns.
  static StatusOr<std::shared_ptr<const DeviceCsr>> Concatenate(const std::vector<CsrView>& parts,
                                                                const std::vector<EdgeId>& row_ptr, Device& device);
  CsrView view() const { return view_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  CsrView view_;
  int64_t size_bytes_ = 0;
  Buffer row_ptr_, col_, value_;
};

// Floats of each node in device memory, in execution order.
class DeviceVector {
 public:
  static StatusOr<std::shared_ptr<const DeviceVector>> Upload(const std::vector<float>& values, Device& device);
  const float* data() const { return buffer_.as<float>(); }
  int64_t size_bytes() const { return static_cast<int64_t>(buffer_.bytes()); }

 private:
  Buffer buffer_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARED_DEVICE_ARRAYS_H_

// SPDX-License-Identifier: Apache-2.0
// The owning half of device memory: frees through the device it came from, exactly once.
#include <utility>

#include "engine/device/device.h"

namespace vicinal {

Buffer::~Buffer() {
  if (device_ != nullptr) device_->Free(data_, bytes_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  if (device_ != nullptr) device_->Free(data_, bytes_);
  device_ = std::exchange(other.device_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

}  // namespace vicinal

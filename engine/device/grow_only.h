// SPDX-License-Identifier: Apache-2.0
// Memory that outlives a request: grows to the largest request so far, never shrinks, and is accounted for before it is
// allocated. What runs again and again allocates nothing once it is warm.
#ifndef VICINAL_ENGINE_DEVICE_GROW_ONLY_H_
#define VICINAL_ENGINE_DEVICE_GROW_ONLY_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/memory/memory_account.h"

namespace vicinal {

// An array of T in memory of `device`. Used by one thread at a time; device and account must outlive it.
template <class T>
class GrowOnly {
 public:
  GrowOnly(Device* device, MemoryAccount* account) : device_(device), account_(account) {}
  ~GrowOnly() { account_->Release(bytes()); }
  GrowOnly(GrowOnly&& other) noexcept
      : device_(other.device_), account_(other.account_), buffer_(std::exchange(other.buffer_, Buffer())) {}
  GrowOnly& operator=(GrowOnly&&) = delete;

  T* data() const { return buffer_.template as<T>(); }
  int64_t capacity() const { return bytes() / static_cast<int64_t>(sizeof(T)); }

  // Room for `count` elements, of which the first `keep` stay (in host memory only); the others hold anything. A half
  // more than before, where that may be had, so that slowly growing requests allocate seldom. The account's errors and
  // the device's.
  Status Reserve(int64_t count, int64_t keep = 0) {
    if (count <= capacity()) return OkStatus();
    const int64_t ample = std::max(count, capacity() + capacity() / 2);
    Status grown = Grow(ample, keep);
    return grown.ok() || ample == count ? grown : Grow(count, keep);
  }

 private:
  int64_t bytes() const { return static_cast<int64_t>(buffer_.bytes()); }

  Status Grow(int64_t count, int64_t keep) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    VICINAL_RETURN_IF_ERROR(account_->Reserve(bytes));
    StatusOr<Buffer> larger = device_->Allocate(static_cast<size_t>(bytes));
    if (!larger.ok()) {
      account_->Release(bytes);
      return larger.status();
    }
    if (keep > 0) std::memcpy(larger->data(), buffer_.data(), static_cast<size_t>(keep) * sizeof(T));
    account_->Release(this->bytes());
    buffer_ = *std::move(larger);
    return OkStatus();
  }

  Device* device_;
  MemoryAccount* account_;
  Buffer buffer_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_DEVICE_GROW_ONLY_H_

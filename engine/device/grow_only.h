// SPDX-License-Identifier: Apache-2.0
// Memory that outlives a request: it grows to the largest request so far and never shrinks. It is reserved before it is
// allocated. What runs again and again allocates nothing once it is warm.
#ifndef VICINAL_ENGINE_DEVICE_GROW_ONLY_H_
#define VICINAL_ENGINE_DEVICE_GROW_ONLY_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/memory/memory_budget.h"

namespace vicinal {

// An array of T in memory of `device`. Used by one thread at a time; the device and the purpose's budget must outlive
// it.
template <class T>
class GrowOnly {
 public:
  GrowOnly(Device* device, const MemoryPurpose& purpose) : device_(device), purpose_(purpose) {}
  GrowOnly(GrowOnly&& other) noexcept = default;
  GrowOnly& operator=(GrowOnly&&) = delete;

  T* data() const { return buffer_.template as<T>(); }
  int64_t capacity() const { return bytes() / static_cast<int64_t>(sizeof(T)); }

  // Makes room for `count` elements. The first `keep` stay (in host memory only); the others hold anything. Where it
  // may be had, it grows by half at least, so that slowly growing requests allocate seldom. Errors are those of the
  // budget and of the device.
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
    VICINAL_ASSIGN_OR_RETURN(Reservation memory, purpose_.Reserve(bytes));
    VICINAL_ASSIGN_OR_RETURN(Buffer larger, device_->Allocate(static_cast<size_t>(bytes)));
    if (keep > 0) std::memcpy(larger.data(), buffer_.data(), static_cast<size_t>(keep) * sizeof(T));
    buffer_ = std::move(larger);
    memory_ = std::move(memory);
    return OkStatus();
  }

  Device* device_;
  MemoryPurpose purpose_;
  Reservation memory_;  // of buffer_, which goes first
  Buffer buffer_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_DEVICE_GROW_ONLY_H_

// SPDX-License-Identifier: Apache-2.0
#include "engine/device/limited_device.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal {
namespace {

thread_local int without_eviction = 0;

}  // namespace

LimitedDevice::WithoutEviction::WithoutEviction() { ++without_eviction; }
LimitedDevice::WithoutEviction::~WithoutEviction() { --without_eviction; }

StatusOr<Buffer> LimitedDevice::AllocateNow(int64_t bytes) {
  MutexLock lock(&mutex_);
  const int64_t allocated = device_.allocated_bytes();
  if (limit_ == 0 || bytes <= limit_ - allocated) return device_.Allocate(static_cast<size_t>(bytes));
  return ResourceExhausted(
      "OUT_OF_MEMORY",
      absl::StrCat("the device '", name(), "' has ", std::max<int64_t>(0, limit_ - allocated), " of the ", bytes,
                   " bytes that are needed (--device_memory_bytes is ", limit_, "); free graphs or models, or retry"),
      std::chrono::seconds(1));
}

StatusOr<Buffer> LimitedDevice::Allocate(size_t bytes) {
  const auto wanted = static_cast<int64_t>(bytes);
  if (limit_ > 0 && wanted > limit_) {
    return FailedPrecondition("OVER_BUDGET",
                              absl::StrCat("this needs ", wanted, " bytes of the device '", name(),
                                           "' at once, but --device_memory_bytes is ", limit_, "; raise it"));
  }
  for (;;) {
    StatusOr<Buffer> buffer = AllocateNow(wanted);
    if (buffer.ok() || buffer.status().code() != StatusCode::kResourceExhausted) return buffer;
    if (without_eviction > 0 || !evict_) return buffer;
    // Where the device itself is full, nobody knows how much of it is in one piece.
    const int64_t over = limit_ == 0 ? wanted : device_.allocated_bytes() + wanted - limit_;
    if (!evict_(over > 0 ? over : wanted)) return buffer;
  }
}

Device& InnerDevice(Device& device) {
  const auto* const limited = dynamic_cast<LimitedDevice*>(&device);
  return limited == nullptr ? device : limited->inner();
}

}  // namespace vicinal

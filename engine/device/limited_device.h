// SPDX-License-Identifier: Apache-2.0
// A device whose memory is a cache: when an allocation does not fit, what can be had again leaves the device, and the
// allocation is tried again.
#ifndef VICINAL_ENGINE_DEVICE_LIMITED_DEVICE_H_
#define VICINAL_ENGINE_DEVICE_LIMITED_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/device/device.h"

namespace vicinal {

// Thread-safe. Buffers and contexts are those of the device that it stands for, so what kernels allocate through their
// context's device counts, but evicts nothing.
class LimitedDevice final : public Device {
 public:
  // Frees about `bytes` of the device's memory. Returns whether it freed anything. Called on the thread that allocates,
  // perhaps on several at once, without locks of this object; it must not allocate on the device.
  using Evictor = std::function<bool(int64_t bytes)>;

  // `device` must outlive it. `limit`: bytes that may be allocated; 0: as many as the device has. `evict` may be
  // empty, and is called by allocations only.
  LimitedDevice(Device* device, int64_t limit, Evictor evict)
      : device_(*device), limit_(limit), evict_(std::move(evict)) {}

  int64_t limit() const { return limit_; }
  Device& inner() const { return device_; }

  // While one lives, allocations of its thread evict nothing, on any device.
  class WithoutEviction {
   public:
    WithoutEviction();
    ~WithoutEviction();
    WithoutEviction(const WithoutEviction&) = delete;
    WithoutEviction& operator=(const WithoutEviction&) = delete;
  };

  DeviceKind kind() const override { return device_.kind(); }
  std::string name() const override { return device_.name(); }
  std::string description() const override { return device_.description(); }
  std::string pci_address() const override { return device_.pci_address(); }
  // FAILED_PRECONDITION (OVER_BUDGET): more than the limit. RESOURCE_EXHAUSTED: no memory, also after eviction.
  StatusOr<Buffer> Allocate(size_t bytes) override;
  Status CopyFromHost(void* dst, const void* host, size_t bytes) override {
    return device_.CopyFromHost(dst, host, bytes);
  }
  Status CopyToHost(void* host, const void* src, size_t bytes) override { return device_.CopyToHost(host, src, bytes); }
  Status CopyOnDevice(void* dst, const void* src, size_t bytes) override {
    return device_.CopyOnDevice(dst, src, bytes);
  }
  std::unique_ptr<DeviceContext> CreateContext() override { return device_.CreateContext(); }
  std::unique_ptr<DeviceContext> CreateSmallContext() override { return device_.CreateSmallContext(); }
  Status Health() override { return device_.Health(); }
  int64_t allocated_bytes() const override { return device_.allocated_bytes(); }
  int64_t last_cache_bytes() const override { return device_.last_cache_bytes(); }

 private:
  void Free(void*, size_t) override {}  // buffers are the inner device's
  StatusOr<Buffer> AllocateNow(int64_t bytes) VICINAL_EXCLUDES(mutex_);

  Device& device_;
  const int64_t limit_;
  const Evictor evict_;
  Mutex mutex_;  // from the look at what is allocated to the allocation; not held while evicting
};

// The device that `device` stands for: itself, unless it is a LimitedDevice.
Device& InnerDevice(Device& device);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_DEVICE_LIMITED_DEVICE_H_

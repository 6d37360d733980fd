// SPDX-License-Identifier: Apache-2.0
// A device whose memory is short: what is evicted, when, and what callers are told.
#include "engine/device/limited_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LimitedDeviceTest : public ::testing::Test {
 protected:
  // Frees the oldest buffer.
  bool Evict(int64_t bytes) {
    asked_.push_back(bytes);
    if (cached_.empty()) return false;
    cached_.erase(cached_.begin());
    return true;
  }
  void Cache(size_t bytes) {
    auto buffer = device_.Allocate(bytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    cached_.push_back(*std::move(buffer));
  }

  std::unique_ptr<Device> cpu_ = MakeCpuDevice(1);
  std::vector<Buffer> cached_;
  std::vector<int64_t> asked_;
  LimitedDevice device_{cpu_.get(), 1000, [this](int64_t bytes) { return Evict(bytes); }};
};

TEST_F(LimitedDeviceTest, EvictsUntilAnAllocationFits) {
  for (int i = 0; i < 3; ++i) Cache(300);
  EXPECT_TRUE(asked_.empty());
  const auto buffer = device_.Allocate(600);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_THAT(asked_, ElementsAre(500, 200));
  EXPECT_EQ(cached_.size(), 1u);
  EXPECT_EQ(device_.allocated_bytes(), 900);
  EXPECT_EQ(cpu_->allocated_bytes(), 900);
}

TEST_F(LimitedDeviceTest, TellsWhereNothingIsLeftToEvict) {
  const auto kept = device_.Allocate(700);
  Cache(200);
  const auto refused = device_.Allocate(400);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(refused.status())->reason, "OUT_OF_MEMORY");
  EXPECT_TRUE(DetailOf(refused.status())->retry_after);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("has 300 of the 400 bytes"));
  EXPECT_TRUE(cached_.empty());
}

TEST_F(LimitedDeviceTest, EvictsNothingForWhatNeverFits) {
  Cache(200);
  const auto refused = device_.Allocate(1001);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(refused.status())->reason, "OVER_BUDGET");
  EXPECT_TRUE(asked_.empty());
}

TEST_F(LimitedDeviceTest, OneThreadMayKeepWhatIsThere) {
  Cache(900);
  {
    const LimitedDevice::WithoutEviction keep;
    { const LimitedDevice::WithoutEviction nested; }
    EXPECT_EQ(device_.Allocate(200).status().code(), StatusCode::kResourceExhausted);
    EXPECT_TRUE(asked_.empty());
    StatusOr<Buffer> other = Internal("not asked");
    std::thread([&] { other = device_.Allocate(200); }).join();
    EXPECT_TRUE(other.ok()) << "another thread evicts";
  }
  EXPECT_TRUE(device_.Allocate(900).ok());
}

// A device that is full itself.
class FullDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return "full"; }
  std::string description() const override { return "full"; }
  StatusOr<Buffer> Allocate(size_t bytes) override {
    if (full) return ResourceExhausted("OUT_OF_MEMORY", "full", std::chrono::seconds(1));
    if (broken) return Internal("broken");
    return cpu_->Allocate(bytes);
  }
  Status CopyFromHost(void* dst, const void* host, size_t bytes) override {
    return cpu_->CopyFromHost(dst, host, bytes);
  }
  Status CopyToHost(void* host, const void* src, size_t bytes) override { return cpu_->CopyToHost(host, src, bytes); }
  Status CopyOnDevice(void* dst, const void* src, size_t bytes) override { return cpu_->CopyOnDevice(dst, src, bytes); }
  std::unique_ptr<DeviceContext> CreateContext() override { return cpu_->CreateContext(); }
  int64_t allocated_bytes() const override { return cpu_->allocated_bytes(); }

  bool full = true, broken = false;

 private:
  void Free(void*, size_t) override {}
  const std::unique_ptr<Device> cpu_ = MakeCpuDevice(1);
};

TEST(LimitedDevice, WithoutALimitTheDevicesOwnMemoryIsTheLimit) {
  FullDevice full;
  std::vector<int64_t> asked;
  LimitedDevice device(&full, 0, [&](int64_t bytes) {
    asked.push_back(bytes);
    full.full = false;
    return true;
  });
  EXPECT_TRUE(device.Allocate(100).ok());
  EXPECT_THAT(asked, ElementsAre(100));
  full.broken = true;
  EXPECT_EQ(device.Allocate(100).status().code(), StatusCode::kInternal)
      << "eviction helps against want of memory only";
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_EQ(&InnerDevice(device), &full);
  EXPECT_EQ(&InnerDevice(full), &full);
  EXPECT_EQ(device.name(), "full");
  EXPECT_EQ(device.kind(), DeviceKind::kCuda);
}

}  // namespace
}  // namespace vicinal

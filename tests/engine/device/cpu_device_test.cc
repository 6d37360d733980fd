// SPDX-License-Identifier: Apache-2.0
// The CPU device: alignment, accounting to the byte, ownership of buffers, copies, refusal of what does not fit.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/sanitized.h"
#include "engine/device/device.h"
#include "engine/device/views.h"

namespace vicinal {
namespace {

TEST(CpuDevice, SaysWhatItIs) {
  auto device = MakeCpuDevice(3);
  EXPECT_EQ(device->kind(), DeviceKind::kCpu);
  EXPECT_EQ(device->name(), "cpu");
  EXPECT_NE(device->description().find("3 threads"), std::string::npos) << device->description();
  auto context = device->CreateContext();
  EXPECT_EQ(&context->device(), device.get());
  ASSERT_NE(context->thread_pool(), nullptr);
  EXPECT_EQ(context->thread_pool()->num_threads(), 3);
  EXPECT_TRUE(context->Synchronize().ok());
}

TEST(CpuDevice, ZeroThreadsMeansTheCoresThereAre) {
  auto device = MakeCpuDevice(0);
  EXPECT_GE(device->CreateContext()->thread_pool()->num_threads(), 1);
}

TEST(CpuDevice, AllocatesAlignedAndCounts) {
  auto device = MakeCpuDevice(1);
  {
    std::vector<Buffer> buffers;
    int64_t expected = 0;
    for (const size_t bytes : {1u, 63u, 64u, 65u, 1000u, 1u << 20}) {
      auto buffer = device->Allocate(bytes);
      ASSERT_TRUE(buffer.ok());
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
      EXPECT_EQ(buffer->bytes(), bytes);
      std::memset(buffer->data(), 0xAB, bytes);
      expected += static_cast<int64_t>(bytes);
      buffers.push_back(*std::move(buffer));
      EXPECT_EQ(device->allocated_bytes(), expected);
    }
  }
  EXPECT_EQ(device->allocated_bytes(), 0);
}

// Memory budgets count what is asked for: large pages must not make it twice as much.
TEST(CpuDevice, LargePagesTakeLittleBeyondTheSize) {
#if VICINAL_SANITIZED
  GTEST_SKIP() << "a sanitizer has an allocator of its own";
#endif
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    int64_t total = 0, pages = 0;
    file >> total >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  auto device = MakeCpuDevice(1);
  for (const size_t bytes : {size_t{1'100'000}, size_t{2'200'000}}) {
    const int64_t before = resident();
    std::vector<Buffer> buffers;
    for (int i = 0; i < 64; ++i) {
      buffers.push_back(*device->Allocate(bytes));
      std::memset(buffers.back().data(), 1, bytes);
    }
    EXPECT_LT(resident() - before, device->allocated_bytes() * 8 / 7 + (int64_t{1} << 20)) << bytes;
  }
}

TEST(CpuDevice, PicksRowsInAnyOrder) {
  auto device = MakeCpuDevice(1);
  auto context = device->CreateContext();
  const std::vector<float> values = {0, 1, -1, 10, 11, -1, 20, 21, -1};
  const ConstMatrixView matrix = {values.data(), 3, 2, 3};
  const std::vector<int64_t> rows = {2, 0, 2};
  std::vector<float> out(6);
  ASSERT_TRUE(context->CopyRowsToHost(out.data(), matrix, rows.data(), 3).ok());
  EXPECT_EQ(out, (std::vector<float>{20, 21, 0, 1, 20, 21}));
  EXPECT_TRUE(context->CopyRowsToHost(nullptr, {nullptr, 3, 0, 0}, rows.data(), 3).ok());
  EXPECT_TRUE(context->CopyRowsToHost(nullptr, matrix, nullptr, 0).ok());
}

TEST(CpuDevice, LaunchesRunAtOnceSoNothingIsRecorded) {
  auto device = MakeCpuDevice(1);
  auto context = device->CreateContext();
  EXPECT_TRUE(device->Health().ok());
  EXPECT_FALSE(context->launches_only());
  int launched = 0;
  const auto recording = context->Record([&launched] {
    ++launched;
    return OkStatus();
  });
  ASSERT_FALSE(recording.ok());
  EXPECT_EQ(DetailOf(recording.status())->reason, kCannotRecordReason);
  EXPECT_EQ(launched, 0);
  EXPECT_FALSE(context->MakeTimer(2).ok());
}

TEST(CpuDevice, CopiesOnTheDevice) {
  auto device = MakeCpuDevice(1);
  auto from = device->Allocate(100), to = device->Allocate(100);
  ASSERT_TRUE(from.ok() && to.ok());
  std::memset(from->data(), 0x5A, 100);
  std::memset(to->data(), 0, 100);
  ASSERT_TRUE(device->CopyOnDevice(to->data(), from->data(), 99).ok());
  EXPECT_EQ(std::memcmp(to->data(), from->data(), 99), 0);
  EXPECT_EQ(to->as<char>()[99], 0);
  EXPECT_TRUE(device->CopyOnDevice(nullptr, nullptr, 0).ok());
}

TEST(CpuDevice, NothingIsAllocatedForNothing) {
  auto device = MakeCpuDevice(1);
  auto buffer = device->Allocate(0);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->bytes(), 0u);
  EXPECT_EQ(device->allocated_bytes(), 0);
  EXPECT_TRUE(device->CopyFromHost(nullptr, nullptr, 0).ok());
  EXPECT_TRUE(device->CopyToHost(nullptr, nullptr, 0).ok());
}

TEST(CpuDevice, WhatDoesNotFitIsResourceExhausted) {
  auto device = MakeCpuDevice(1);
  for (const size_t bytes : {std::numeric_limits<size_t>::max(), size_t{1} << 62}) {
    auto buffer = device->Allocate(bytes);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.status().code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(DetailOf(buffer.status())->reason, "OUT_OF_MEMORY");
    EXPECT_TRUE(DetailOf(buffer.status())->retry_after.has_value());
  }
  EXPECT_EQ(device->allocated_bytes(), 0);
}

TEST(CpuDevice, BuffersMoveAndFreeOnce) {
  auto device = MakeCpuDevice(1);
  Buffer a = *device->Allocate(100), b = *device->Allocate(50);
  void* data = a.data();
  Buffer c = std::move(a);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(device->allocated_bytes(), 150);
  b = std::move(c);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(device->allocated_bytes(), 100);
  Buffer& itself = b;
  b = std::move(itself);
  EXPECT_EQ(b.data(), data);
  b = Buffer();
  EXPECT_EQ(device->allocated_bytes(), 0);
}

TEST(CpuDevice, Copies) {
  auto device = MakeCpuDevice(1);
  const std::vector<float> host = {1, 2, 3};
  std::vector<float> back(3);
  Buffer buffer = *device->Allocate(12);
  ASSERT_TRUE(device->CopyFromHost(buffer.data(), host.data(), 12).ok());
  ASSERT_TRUE(device->CopyToHost(back.data(), buffer.data(), 12).ok());
  EXPECT_EQ(back, host);
}

TEST(Views, RowsAndColumns) {
  std::vector<float> data(20);
  for (int i = 0; i < 20; ++i) data[i] = static_cast<float>(i);
  const MatrixView m{data.data(), 4, 3, 5};
  EXPECT_EQ(m.row(2)[1], 11.0f);
  const ConstMatrixView part = m.columns(1, 2);
  EXPECT_EQ(part.rows, 4);
  EXPECT_EQ(part.cols, 2);
  EXPECT_EQ(part.row(3)[0], 16.0f);
  EXPECT_FALSE(part.empty());
  EXPECT_TRUE(ConstMatrixView().empty());
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// Rows that go to a device in parts: every number at its place and zeros between, whatever the parts are; errors of
// either side end it.
#include "engine/prepared/fill_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "engine/base/error.h"

namespace vicinal {
namespace {

// Of the number at that place of a row-major matrix.
float NumberAt(int64_t index) { return static_cast<float>(index % 1009) + 1.0f; }

Status Fill(int64_t begin, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = NumberAt(begin + i);
  return OkStatus();
}

// Host memory that begins as ones, and refuses a copy of a given number.
class OnesDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string name() const override { return "ones"; }
  std::string description() const override { return "begins as ones"; }
  StatusOr<Buffer> Allocate(size_t bytes) override {
    memory_.assign(bytes / sizeof(float), 1.0f);
    return Buffer(this, memory_.data(), bytes);
  }
  Status CopyFromHost(void* dst, const void* host, size_t bytes) override {
    if (copies_++ == fail_at) return Internal("the copy failed");
    std::memcpy(dst, host, bytes);
    return OkStatus();
  }
  Status CopyToHost(void*, const void*, size_t) override { return Internal("unused"); }
  Status CopyOnDevice(void*, const void*, size_t) override { return Internal("unused"); }
  std::unique_ptr<DeviceContext> CreateContext() override { return nullptr; }
  int64_t allocated_bytes() const override { return 0; }
  int copies() const { return copies_; }

  int fail_at = -1;

 private:
  void Free(void*, size_t) override {}
  std::vector<float> memory_;
  int copies_ = 0;
};

TEST(FillRowsTest, PutsEveryNumberAtItsPlaceAndZerosBetween) {
  for (const int64_t part : {1, 3, 7, 8, 35, 36, 1000}) {
    for (const int64_t stride : {7, 8, 12}) {
      for (const int64_t rows : {0, 1, 5}) {
        SCOPED_TRACE(::testing::Message() << "part " << part << ", stride " << stride << ", rows " << rows);
        OnesDevice device;
        const auto buffer = FillRows(rows, 7, stride, device, Fill, part);
        ASSERT_TRUE(buffer.ok()) << buffer.status();
        ASSERT_EQ(buffer->bytes(), static_cast<size_t>(rows * stride) * sizeof(float));
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t col = 0; col < stride; ++col) {
            const float expected = col < 7 ? NumberAt(row * 7 + col) : 0.0f;
            ASSERT_EQ(buffer->as<float>()[row * stride + col], expected) << row << ", " << col;
          }
        }
        EXPECT_EQ(device.copies(), (rows * 7 + part - 1) / part);
      }
    }
  }
}

TEST(FillRowsTest, EndsWithTheFirstErrorOfEitherSide) {
  OnesDevice device;
  std::vector<int64_t> begun;
  const auto fails = [&](int64_t begin, int64_t count, float* to) {
    begun.push_back(begin);
    return begin == 16 ? Internal("no more") : Fill(begin, count, to);
  };
  EXPECT_EQ(FillRows(10, 4, 4, device, fails, 8).status(), Internal("no more"));
  EXPECT_EQ(begun, (std::vector<int64_t>{0, 8, 16}));
  OnesDevice refusing;
  refusing.fail_at = 1;
  EXPECT_EQ(FillRows(10, 4, 4, refusing, Fill, 8).status(), Internal("the copy failed"));
  EXPECT_EQ(refusing.copies(), 2) << "nothing is copied after an error";
  OnesDevice last;
  last.fail_at = 4;
  EXPECT_EQ(FillRows(10, 4, 4, last, Fill, 8).status(), Internal("the copy failed"));
}

}  // namespace
}  // namespace vicinal

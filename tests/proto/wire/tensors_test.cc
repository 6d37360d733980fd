// SPDX-License-Identifier: Apache-2.0
// Tensors there and back; every float16 and bfloat16 against a computation in double; sizes that lie.
#include "proto/wire/tensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace vicinal::wire {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

v1::Tensor Raw(v1::DataType dtype, std::vector<int64_t> shape, std::string data) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  for (const int64_t extent : shape) tensor.add_shape(extent);
  tensor.set_data(std::move(data));
  return tensor;
}

TEST(TensorsTest, FloatsThereAndBack) {
  const std::vector<float> values = {0.0f, -1.5f, 3e38f, 1e-45f, 7.0f, -0.0f};
  const v1::Tensor tensor = MakeTensor(values.data(), {2, 3});
  EXPECT_TRUE(CheckTensor(tensor).ok());
  EXPECT_EQ(ShapeOf(tensor), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(ToFloats(tensor).value(), values);
  EXPECT_EQ(ToInts(tensor).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TensorsTest, IntsThereAndBack) {
  const std::vector<int64_t> wide = {kMax, -kMax - 1, 0};
  EXPECT_EQ(ToInts(MakeTensor(wide.data(), {3})).value(), wide);
  const std::vector<int32_t> narrow = {1, -2};
  EXPECT_EQ(ToInts(MakeTensor(narrow.data(), {2, 1})).value(), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(ToFloats(MakeTensor(narrow.data(), {2})).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TensorsTest, EmptyAndScalar) {
  EXPECT_EQ(ToFloats(MakeTensor<float>(nullptr, {0, 16})).value().size(), 0u);
  const float one = 1;
  EXPECT_EQ(ToFloats(MakeTensor(&one, {})).value(), std::vector<float>{1});
}

// The value that IEEE 754 gives, from sign, exponent and mantissa.
double HalfValue(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

TEST(TensorsTest, EveryHalfIsExact) {
  std::string bytes(2 * 65536, '\0');
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<uint16_t>(i);
    std::memcpy(&bytes[2 * i], &half, 2);
  }
  const auto float16 = ToFloats(Raw(v1::DATA_TYPE_FLOAT16, {65536}, bytes)).value();
  const auto bfloat16 = ToFloats(Raw(v1::DATA_TYPE_BFLOAT16, {65536}, bytes)).value();
  for (uint32_t i = 0; i < 65536; ++i) {
    const double half = HalfValue(static_cast<uint16_t>(i), 5, 10), brain = HalfValue(static_cast<uint16_t>(i), 8, 7);
    ASSERT_TRUE(std::isnan(half) ? std::isnan(float16[i]) : float16[i] == half) << i;
    ASSERT_TRUE(std::isnan(brain) ? std::isnan(bfloat16[i]) : bfloat16[i] == brain) << i;
    ASSERT_EQ(std::signbit(float16[i]), (i & 0x8000) != 0) << i;
  }
}

TEST(TensorsTest, SizesThatLie) {
  EXPECT_EQ(ByteSize(v1::DATA_TYPE_FLOAT32, {2, 3}).value(), 24);
  EXPECT_EQ(ByteSize(v1::DATA_TYPE_INT64, {kMax, 0}).value(), 0);
  EXPECT_FALSE(ByteSize(v1::DATA_TYPE_INT64, {kMax}).ok());
  EXPECT_FALSE(ByteSize(v1::DATA_TYPE_UINT8, {kMax, 2}).ok());
  EXPECT_FALSE(ByteSize(v1::DATA_TYPE_UINT8, {int64_t{1} << 32, int64_t{1} << 32}).ok());
  EXPECT_FALSE(ByteSize(v1::DATA_TYPE_FLOAT32, {-1, 0}).ok());
  EXPECT_FALSE(ByteSize(v1::DATA_TYPE_UNSPECIFIED, {1}).ok());
  EXPECT_FALSE(ByteSize(static_cast<v1::DataType>(99), {1}).ok());
}

TEST(TensorsTest, DamagedTensorsAreRefusedWithBothSizes) {
  const absl::Status status = CheckTensor(Raw(v1::DATA_TYPE_FLOAT32, {2}, "1234567"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("8 bytes, but 7 came"), absl::string_view::npos) << status;
  EXPECT_FALSE(ToFloats(Raw(v1::DATA_TYPE_FLOAT32, {1}, "")).ok());
  EXPECT_FALSE(ToInts(Raw(v1::DATA_TYPE_INT64, {-1}, "")).ok());
  EXPECT_FALSE(ToInts(Raw(v1::DATA_TYPE_UINT8, {4}, "abcd")).ok());
  EXPECT_FALSE(ToFloats(Raw(v1::DATA_TYPE_UNSPECIFIED, {}, "")).ok());
}

TEST(TensorsTest, ConvertsFromUnalignedBytes) {
  const float value = 2.5f;
  std::string bytes = "x" + std::string(reinterpret_cast<const char*>(&value), 4);
  float out = 0;
  EXPECT_TRUE(ConvertToFloats(v1::DATA_TYPE_FLOAT32, bytes.data() + 1, 1, &out));
  EXPECT_EQ(out, value);
  int64_t integer = 0;
  EXPECT_FALSE(ConvertToInts(v1::DATA_TYPE_FLOAT32, bytes.data() + 1, 1, &integer));
}

}  // namespace
}  // namespace vicinal::wire

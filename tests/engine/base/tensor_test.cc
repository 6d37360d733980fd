// SPDX-License-Identifier: Apache-2.0
// Tensors from outside: every 16-bit pattern converts exactly, and shapes and bytes that lie are refused.
#include "engine/base/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/error.h"

namespace vicinal {
namespace {

// Value of a binary floating-point pattern by its definition: sign, exponent and fraction of the given widths, by
// ldexp.
double ByDefinition(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  const int fraction = bits & ((1 << fraction_bits) - 1), exponent = (bits >> fraction_bits) & top;
  const double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == top)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

void ExpectSame(float got, double want, int bits) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << bits;
  } else {
    EXPECT_EQ(static_cast<double>(got), want) << bits;
    EXPECT_EQ(std::signbit(got), std::signbit(want)) << bits;
  }
}

TEST(Tensor, EveryHalfAndBFloat16) {
  for (int bits = 0; bits < 65536; ++bits) {
    ExpectSame(HalfToFloat(static_cast<uint16_t>(bits)), ByDefinition(static_cast<uint16_t>(bits), 5, 10), bits);
    ExpectSame(BFloat16ToFloat(static_cast<uint16_t>(bits)), ByDefinition(static_cast<uint16_t>(bits), 8, 7), bits);
  }
}

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

TEST(Tensor, FloatsFromEachTypeAtAnyAddress) {
  const std::string padded = "x" + BytesOf<float>({1.5f, -2.0f});
  auto floats = ToFloats({DataType::kFloat32, {2}, std::string_view(padded).substr(1)}, "t");
  ASSERT_TRUE(floats.ok());
  EXPECT_EQ(*floats, (std::vector<float>{1.5f, -2.0f}));
  const std::string halves = "x" + BytesOf<uint16_t>({0x3E00, 0xC000});
  EXPECT_EQ(*ToFloats({DataType::kFloat16, {1, 2}, std::string_view(halves).substr(1)}, "t"),
            (std::vector<float>{1.5f, -2.0f}));
  const std::string brains = "x" + BytesOf<uint16_t>({0x3FC0, 0xC000});
  EXPECT_EQ(*ToFloats({DataType::kBFloat16, {2, 1}, std::string_view(brains).substr(1)}, "t"),
            (std::vector<float>{1.5f, -2.0f}));
}

TEST(Tensor, IntsFromEachType) {
  const std::string narrow = BytesOf<int32_t>({-1, 7}), wide = BytesOf<int64_t>({-1, int64_t{1} << 40});
  EXPECT_EQ(*ToInts({DataType::kInt32, {2}, narrow}, "t"), (std::vector<int64_t>{-1, 7}));
  EXPECT_EQ(*ToInts({DataType::kInt64, {2}, wide}, "t"), (std::vector<int64_t>{-1, int64_t{1} << 40}));
}

TEST(Tensor, WrongTypesAreRefused) {
  EXPECT_EQ(DetailOf(ToFloats({DataType::kInt32, {1}, "abcd"}, "x").status())->reason, "WRONG_TYPE");
  EXPECT_EQ(DetailOf(ToInts({DataType::kFloat32, {1}, "abcd"}, "x").status())->reason, "WRONG_TYPE");
  EXPECT_EQ(DetailOf(ToInts({DataType::kUint8, {4}, "abcd"}, "x").status())->field, "x");
}

TEST(Tensor, ShapesThatLieAreRefused) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(DetailOf(ToFloats({DataType::kFloat32, {-1}, ""}, "x").status())->reason, "BAD_SHAPE");
  EXPECT_EQ(DetailOf(ToFloats({DataType::kFloat32, {huge}, ""}, "x").status())->reason, "BAD_SHAPE");
  EXPECT_EQ(DetailOf(ToFloats({DataType::kFloat32, {int64_t{1} << 31, int64_t{1} << 31, 4}, ""}, "x").status())->reason,
            "BAD_SHAPE");
  EXPECT_EQ(DetailOf(ToFloats({DataType::kFloat32, {3}, "12345678"}, "x").status())->reason, "TENSOR_SIZE_MISMATCH");
  EXPECT_EQ(DetailOf(ToInts({DataType::kInt64, {0, 5}, "1"}, "x").status())->reason, "TENSOR_SIZE_MISMATCH");
  EXPECT_EQ(ToFloats({DataType::kFloat32, {huge, 0}, ""}, "x").status().code(), StatusCode::kInvalidArgument);
}

TEST(Tensor, EmptyAndScalarShapes) {
  EXPECT_TRUE(ToFloats({DataType::kFloat32, {0, 7}, ""}, "x")->empty());
  EXPECT_EQ(*ElementCount({DataType::kFloat32, {}, "abcd"}, "x"), 1);
}

TEST(Tensor, CheckFiniteNamesTheFirstOffender) {
  const std::vector<float> values = {1, 2, 3, std::nanf(""), HUGE_VALF, 6};
  EXPECT_TRUE(CheckFinite(values.data(), 3, 3, "x").ok());
  EXPECT_EQ(CheckFinite(values.data(), 6, 3, "x").message().substr(0, 7), "x[1, 0]");
  EXPECT_EQ(CheckFinite(values.data() + 4, 2, 0, "w").message().substr(0, 4), "w[0]");
  EXPECT_EQ(DetailOf(CheckFinite(values.data(), 6, 3, "x"))->reason, "NOT_FINITE");
}

TEST(Tensor, Names) {
  EXPECT_EQ(ShapeToString({2, 10}), "[2, 10]");
  EXPECT_EQ(ShapeToString({}), "[]");
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16, DataType::kInt32,
                              DataType::kInt64, DataType::kUint8}) {
    EXPECT_NE(ToString(type), "unknown");
    EXPECT_GE(SizeOf(type), 1);
  }
}

}  // namespace
}  // namespace vicinal

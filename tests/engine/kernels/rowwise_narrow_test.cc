// SPDX-License-Identifier: Apache-2.0
// Rounding of rows to 16 bits, against the values of all patterns.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/engine/kernels/rowwise_testing.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

// The value of a 16-bit pattern, by its fields.
double Decode(uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7FFF) >> mantissa_bits, fraction = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  const int scale = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
  return sign * std::ldexp(fraction + (exponent == 0 ? 0 : 1 << mantissa_bits), scale);
}

// The pattern nearest to a finite x > 0, the even one of two: by bisection over all patterns, which ascend in value.
uint16_t Nearest(double x, int exponent_bits) {
  const int largest = ((1 << exponent_bits) - 1) << (15 - exponent_bits);  // infinity
  // As if the exponent went on: what infinity stands for in rounding.
  const double beyond = 2 * std::ldexp(1.0, (1 << (exponent_bits - 1)) - 1);
  int low = 0, high = largest;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (Decode(static_cast<uint16_t>(middle), exponent_bits) <= x ? low : high) = middle;
  }
  const double below = x - Decode(static_cast<uint16_t>(low), exponent_bits);
  const double above = (high == largest ? beyond : Decode(static_cast<uint16_t>(high), exponent_bits)) - x;
  if (x >= beyond || above < below) return static_cast<uint16_t>(high);
  return static_cast<uint16_t>(below < above || low % 2 == 0 ? low : high);
}

// Numbers of every exponent, halfway cases and their neighbours, the ends of both formats' ranges.
std::vector<float> NumbersToNarrow() {
  std::vector<float> numbers = {0.0f,     1e-45f,          65504.0f,     65519.996f,   65520.0f,        65536.0f,
                                3.4e38f,  6.1e-5f,         0x1.FFCp-15f, 0x1.FFEp-15f, 0x1p-14f,        0x1p-24f,
                                0x1p-25f, 0x1.000002p-25f, 0x1.8p-24f,   0x1.FEp127f,  0x1.FEFFFEp127f, 0x1.FFp127f};
  Random r(12);
  for (int exponent = -149; exponent < 128; ++exponent) {
    for (int k = 0; k < 12; ++k) {
      // Few bits set: ties of both formats are frequent.
      const double mantissa = 1 + static_cast<double>(r.Below(4096)) / 4096;
      numbers.push_back(static_cast<float>(std::ldexp(mantissa, exponent)));
      numbers.push_back(std::nextafter(numbers.back(), k % 2 == 0 ? HUGE_VALF : 0.0f));
    }
  }
  for (float& x : numbers) {
    if (std::isinf(x)) x = 1.0f;
  }
  const size_t count = numbers.size();
  for (size_t k = 0; k < count; ++k) numbers.push_back(-numbers[k]);
  return numbers;
}

TEST(Rowwise, NarrowsToNearestEven) {
  const std::vector<float> numbers = NumbersToNarrow();
  ForEachKernel([&](const auto& kernel) {
    for (const Storage storage : {Storage::kBfloat16, Storage::kFloat16}) {
      const int exponent_bits = storage == Storage::kBfloat16 ? 8 : 5;
      for (const int64_t width : {1, 7, 16, 37, 200}) {
        const int64_t rows = static_cast<int64_t>(numbers.size()) / width, stride = width + 3;
        TestMatrix a(rows, width, 1);
        for (int64_t k = 0; k < rows * width; ++k) a.view().row(k / width)[k % width] = numbers[k];
        std::vector<uint16_t> dst(rows * stride, 0xABCD);
        RowwiseArgs args;
        args.problem = {RowwiseKind::kNarrow, Reduce::kSum, rows, width, storage};
        args.a = a.view();
        args.dst16 = {dst.data(), rows, width, stride};
        ASSERT_EQ(kernel.kernel().WhyUnsupported(args.problem), "");
        ASSERT_TRUE(Launch(kernel, args, 2).ok());
        for (int64_t k = 0; k < rows * stride; ++k) {
          const int64_t i = k / stride, c = k % stride;
          if (c >= width) {
            ASSERT_EQ(dst[k], 0xABCD);
            continue;
          }
          const float x = a.at(i, c);
          const int want = Nearest(std::abs(static_cast<double>(x)), exponent_bits) | (std::signbit(x) ? 0x8000 : 0);
          ASSERT_EQ(dst[k], want) << x;
        }
      }
    }
  });
}

TEST(Rowwise, NarrowKeepsNanAndInfinity) {
  uint32_t low_payload = 0x7F800001;  // a NaN whose upper half alone is infinity
  float signalling;
  std::memcpy(&signalling, &low_payload, sizeof(signalling));
  ForEachKernel([&](const auto& kernel) {
    for (const Storage storage : {Storage::kBfloat16, Storage::kFloat16}) {
      TestMatrix a(1, 40, 1);
      const float specials[] = {std::nanf(""), -std::nanf(""), signalling, HUGE_VALF, -HUGE_VALF};
      for (int k = 0; k < 5; ++k) a.view().row(0)[30 + k] = specials[k];
      std::vector<uint16_t> dst(40);
      RowwiseArgs args;
      args.problem = {RowwiseKind::kNarrow, Reduce::kSum, 1, 40, storage};
      args.a = a.view();
      args.dst16 = {dst.data(), 1, 40, 40};
      ASSERT_TRUE(Launch(kernel, args).ok());
      const int exponent_bits = storage == Storage::kBfloat16 ? 8 : 5;
      for (int k = 30; k < 33; ++k) EXPECT_TRUE(std::isnan(Decode(dst[k], exponent_bits)));
      EXPECT_EQ(Decode(dst[33], exponent_bits), HUGE_VAL);
      EXPECT_EQ(Decode(dst[34], exponent_bits), -HUGE_VAL);
    }
  });
}

TEST(Rowwise, NarrowRefusesFloat32) {
  ForEachKernel([](const auto& kernel) {
    EXPECT_NE(kernel.kernel().WhyUnsupported({RowwiseKind::kNarrow, Reduce::kSum, 3, 4, Storage::kFloat32}), "");
  });
}

}  // namespace
}  // namespace vicinal::testing

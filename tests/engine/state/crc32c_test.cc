// SPDX-License-Identifier: Apache-2.0
#include "engine/state/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/split_mix.h"

namespace vicinal::state {
namespace {

// One bit at a time, from the definition.
uint32_t Bitwise(const std::string& bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

TEST(Crc32cTest, HasTheValuesOfRfc3720) {
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending += static_cast<char>(i);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32cTest, IsTheDefinitionForEveryLengthAlignmentAndSplit) {
  testing::SplitMix64 random(1);
  std::string bytes;
  for (int i = 0; i < 4200; ++i) bytes += static_cast<char>(random.Next());
  for (const size_t length : {1, 7, 8, 63, 64, 255, 256, 1023, 4096}) {
    for (const size_t offset : {0, 1, 3, 8, 64}) {
      const std::string part = bytes.substr(offset, length);
      EXPECT_EQ(Crc32c(std::string_view(bytes).substr(offset, length)), Bitwise(part)) << length << " at " << offset;
      const size_t split = random.Next() % (length + 1);
      EXPECT_EQ(Crc32c(part.substr(split), Crc32c(part.substr(0, split))), Bitwise(part));
    }
  }
}

TEST(Crc32cTest, TextHasEightDigits) { EXPECT_EQ(CrcText(0xab), "000000ab"); }

}  // namespace
}  // namespace vicinal::state

// SPDX-License-Identifier: Apache-2.0
// The checksum against RFC 3720's vectors, against a bit-by-bit computation, and its two ways against each other.
#include "proto/wire/crc32c.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

namespace vicinal::wire {
namespace {

// The definition: one bit at a time, the polynomial as the RFC writes it, bits reversed by hand.
uint32_t BitByBit(const std::string& bytes) {
  uint32_t state = 0xFFFFFFFF;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t input = (static_cast<unsigned char>(c) >> bit) & 1;
      const uint32_t top = state >> 31;
      state = (state << 1) ^ ((input ^ top) != 0 ? 0x1EDC6F41u : 0u);
    }
  }
  uint32_t reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= ((state >> bit) & 1) << (31 - bit);
  return ~reversed;
}

TEST(Crc32cTest, VectorsOfRfc3720) {
  std::string ascending, descending;
  for (int i = 0; i < 32; ++i) ascending.push_back(static_cast<char>(i));
  for (int i = 31; i >= 0; --i) descending.push_back(static_cast<char>(i));
  EXPECT_EQ(Crc32c(std::string(32, '\0').data(), 32), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF').data(), 32), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(ascending.data(), 32), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(descending.data(), 32), 0x113FDB5Cu);
  EXPECT_EQ(Crc32c("123456789", 9), 0xE3069283u);
  EXPECT_EQ(Crc32c(nullptr, 0), 0u);
}

TEST(Crc32cTest, BothWaysEqualTheDefinitionAtEveryLengthAndAlignment) {
  std::mt19937 random(7);
  std::string bytes;
  for (int i = 0; i < 300; ++i) bytes.push_back(static_cast<char>(random()));
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; size + begin <= 80; ++size) {
      const uint32_t expected = BitByBit(bytes.substr(begin, size));
      EXPECT_EQ(Crc32c(bytes.data() + begin, size), expected) << begin << " " << size;
      EXPECT_EQ(internal::Crc32cPortable(bytes.data() + begin, size, 0), expected) << begin << " " << size;
    }
  }
}

TEST(Crc32cTest, GoesOn) {
  const std::string bytes = "messages flow from source to target";
  const uint32_t whole = Crc32c(bytes.data(), bytes.size());
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const uint32_t first = Crc32c(bytes.data(), cut);
    EXPECT_EQ(Crc32c(bytes.data() + cut, bytes.size() - cut, first), whole);
    EXPECT_EQ(internal::Crc32cPortable(bytes.data() + cut, bytes.size() - cut, first), whole);
  }
}

TEST(Crc32cTest, OneFlippedBitChangesIt) {
  std::string bytes(1000, 'v');
  const uint32_t before = Crc32c(bytes.data(), bytes.size());
  for (size_t at = 0; at < bytes.size(); at += 37) {
    bytes[at] ^= 0x10;
    EXPECT_NE(Crc32c(bytes.data(), bytes.size()), before);
    bytes[at] ^= 0x10;
  }
}

}  // namespace
}  // namespace vicinal::wire

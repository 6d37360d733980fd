// SPDX-License-Identifier: Apache-2.0
#include "server/size_flag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace vicinal::server {
namespace {

using ::testing::HasSubstr;

TEST(SizeFlagTest, ReadsBytesAndUnits) {
  const std::pair<const char*, int64_t> cases[] = {
      {"4000000", 4'000'000},
      {"0", 0},
      {"-1", -1},
      {"1KiB", 1024},
      {"64MiB", 67'108'864},
      {"3 GiB", 3'221'225'472},
      {"2TiB", 2'199'023'255'552},
      {" 7 ", 7},
      {"9223372036854775807", std::numeric_limits<int64_t>::max()},
  };
  for (const auto& [text, bytes] : cases) {
    SizeFlag flag;
    std::string error;
    EXPECT_TRUE(AbslParseFlag(text, &flag, &error)) << text << error;
    EXPECT_EQ(flag.bytes, bytes) << text;
  }
}

TEST(SizeFlagTest, TellsHowToWriteOne) {
  SizeFlag flag(7);
  for (const char* text : {"", "MiB", "64MB", "64mb", "1.5GiB", "many", "8388608TiB", "9223372036854775808", "1GiB2"}) {
    std::string error;
    EXPECT_FALSE(AbslParseFlag(text, &flag, &error)) << text;
    EXPECT_THAT(error, HasSubstr("as in 64MiB")) << text;
  }
  EXPECT_EQ(flag.bytes, 7) << "what cannot be read changes nothing";
}

TEST(SizeFlagTest, DefaultsReadBack) {
  EXPECT_EQ(AbslUnparseFlag(SizeFlag(4'000'000)), "4000000");
  EXPECT_EQ(AbslUnparseFlag(SizeFlag(67'108'864)), "64MiB");
  EXPECT_EQ(AbslUnparseFlag(SizeFlag(2'147'483'648)), "2GiB");
  EXPECT_EQ(AbslUnparseFlag(SizeFlag(-1)), "-1");
  EXPECT_EQ(AbslUnparseFlag(SizeFlag(0)), "0");
}

}  // namespace
}  // namespace vicinal::server

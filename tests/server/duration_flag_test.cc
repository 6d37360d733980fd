// SPDX-License-Identifier: Apache-2.0
#include "server/duration_flag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vicinal::server {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(DurationFlagTest, ReadsSpansAndRoundsAwayFromZero) {
  const std::pair<const char*, milliseconds> cases[] = {
      {"500ms", milliseconds(500)}, {"1.5s", milliseconds(1500)}, {"1h30m", std::chrono::minutes(90)},
      {"0", milliseconds(0)},       {"1us", milliseconds(1)},     {"-1us", milliseconds(-1)},
      {"inf", milliseconds::max()},
  };
  for (const auto& [text, time] : cases) {
    DurationFlag flag;
    std::string error;
    EXPECT_TRUE(AbslParseFlag(text, &flag, &error)) << text << error;
    EXPECT_EQ(flag.time, time) << text;
  }
}

TEST(DurationFlagTest, TellsHowToWriteOne) {
  DurationFlag flag(std::chrono::seconds(7));
  std::string error;
  EXPECT_FALSE(AbslParseFlag("500", &flag, &error));
  EXPECT_THAT(error, HasSubstr("500ms"));
  EXPECT_THAT(error, HasSubstr("500s"));
  for (const char* text : {"", "soon", "5 minutes"}) {
    error.clear();
    EXPECT_FALSE(AbslParseFlag(text, &flag, &error)) << text;
    EXPECT_THAT(error, HasSubstr("with its unit")) << text;
  }
  EXPECT_EQ(flag.time, std::chrono::seconds(7)) << "what cannot be read changes nothing";
}

TEST(DurationFlagTest, DefaultsReadBack) {
  EXPECT_EQ(AbslUnparseFlag(milliseconds(500)), "500ms");
  EXPECT_EQ(AbslUnparseFlag(std::chrono::minutes(10)), "10m");
  EXPECT_EQ(AbslUnparseFlag(milliseconds(0)), "0");
}

}  // namespace
}  // namespace vicinal::server

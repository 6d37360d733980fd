// SPDX-License-Identifier: Apache-2.0
#include "server/json_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

namespace vicinal::server {
namespace {

std::string Drained(int fd) {
  std::string text(65536, '\0');
  text.resize(static_cast<size_t>(read(fd, text.data(), text.size())));
  return text;
}

TEST(JsonLogTest, OneParsableLineWhateverTheText) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  FakeClock clock;
  JsonLog log(fds[1], LogLevel::kInfo, &clock);
  log.Log(LogLevel::kDebug, "not this", {});
  log.Log(LogLevel::kError, "line\nbreak \"quoted\" \xff", {{"key", "value\x01"}});
  const std::string text = Drained(fds[0]);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(json.is_object()) << text;
  EXPECT_EQ(json["level"], "error");
  EXPECT_EQ(json["time"], "1970-01-01T00:00:01.000000Z");
  EXPECT_EQ(json["key"], "value\x01");
  close(fds[0]);
  close(fds[1]);
}

// Controls beyond ASCII, bidirectional marks and letters parse to what they were, and none reaches a terminal.
TEST(JsonLogTest, LinesAreAscii) {
  const std::string evil = "\x1b[31m\x7f\xc2\x9b\u202egnp \u00e9\U0001f600";
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  FakeClock clock;
  JsonLog log(fds[1], LogLevel::kInfo, &clock);
  log.Log(LogLevel::kError, evil, {{"key", evil}});
  const std::string text = Drained(fds[0]);
  for (const char c : text) EXPECT_TRUE((c >= ' ' && c < 0x7f) || c == '\n') << text;
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  EXPECT_EQ(json["message"], evil);
  EXPECT_EQ(json["key"], evil);
  close(fds[0]);
  close(fds[1]);
}

TEST(JsonLogTest, Levels) {
  EXPECT_EQ(*ParseLogLevel("warning"), LogLevel::kWarning);
  EXPECT_FALSE(ParseLogLevel("loud").ok());
}

}  // namespace
}  // namespace vicinal::server

// SPDX-License-Identifier: Apache-2.0
#include "server/json_log.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::server {
namespace {

constexpr const char* kLevels[] = {"debug", "info", "warning", "error"};

// RFC 3339, UTC, microseconds.
std::string TimeString(WallTime time) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = us / 1'000'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char date[32], text[48];
  std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text, sizeof(text), "%s.%06dZ", date, static_cast<int>(us % 1'000'000));
  return text;
}

}  // namespace

void JsonLog::Log(LogLevel level, std::string_view message, const LogFields& fields) {
  if (!enabled(level)) return;
  nlohmann::ordered_json json;
  json["time"] = TimeString(clock_->WallNow());
  json["level"] = kLevels[static_cast<int>(level)];
  json["message"] = std::string(message);
  for (const auto& [key, value] : fields) json[key] = value;
  // Names come from clients: they need not be UTF-8, and may have characters that steer the terminal of whoever reads
  // the log, so the line is ASCII.
  std::string line = json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  line += '\n';
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the log has no reader; the server continues
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

StatusOr<LogLevel> ParseLogLevel(std::string_view name) {
  for (int i = 0; i < 4; ++i) {
    if (name == kLevels[i]) return static_cast<LogLevel>(i);
  }
  return InvalidArgument("BAD_FLAG", "log_level",
                         absl::StrCat("--log_level: '", std::string(name), "' must be debug, info, warning or error"));
}

}  // namespace vicinal::server

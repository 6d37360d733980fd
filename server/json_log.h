// SPDX-License-Identifier: Apache-2.0
// The log: one JSON object per line, written with one system call, so that lines of several threads do not mix.
#ifndef VICINAL_SERVER_JSON_LOG_H_
#define VICINAL_SERVER_JSON_LOG_H_

#include <string_view>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/status.h"

namespace vicinal::server {

// Thread-safe.
class JsonLog final : public Logger {
 public:
  // Writes records of `level` and above to the file descriptor, which is not owned.
  JsonLog(int fd, LogLevel level, const Clock* clock) : fd_(fd), level_(level), clock_(clock) {}

  bool enabled(LogLevel level) const { return level >= level_; }
  void Log(LogLevel level, std::string_view message, const LogFields& fields) override;

 private:
  const int fd_;
  const LogLevel level_;
  const Clock* const clock_;
};

// "debug", "info", "warning", "error"; INVALID_ARGUMENT for others.
StatusOr<LogLevel> ParseLogLevel(std::string_view name);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_JSON_LOG_H_

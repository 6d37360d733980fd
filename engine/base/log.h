// SPDX-License-Identifier: Apache-2.0
// Structured log lines of the engine. The engine only emits records; the server decides where they go (JSON lines on
// standard error). Nothing is logged per request below the level the operator chose.
#ifndef VICINAL_ENGINE_BASE_LOG_H_
#define VICINAL_ENGINE_BASE_LOG_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vicinal {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

using LogFields = std::vector<std::pair<std::string, std::string>>;

// Thread-safe.
class Logger {
 public:
  virtual ~Logger() = default;
  virtual void Log(LogLevel level, std::string_view message, const LogFields& fields) = 0;

  // Drops everything.
  static Logger& Null();
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_LOG_H_

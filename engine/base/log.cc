// SPDX-License-Identifier: Apache-2.0
#include "engine/base/log.h"

namespace vicinal {
namespace {

class NullLogger final : public Logger {
 public:
  void Log(LogLevel, std::string_view, const LogFields&) override {}
};

}  // namespace

Logger& Logger::Null() {
  static NullLogger* const logger = new NullLogger;
  return *logger;
}

}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/run_time_compilation.h"

#include <utility>

#include "engine/base/mutex.h"

namespace vicinal {
namespace {

struct Current {
  Mutex mutex;
  RunTimeCompilation setting VICINAL_GUARDED_BY(mutex);
  Logger* logger VICINAL_GUARDED_BY(mutex) = nullptr;
};

// Never destroyed: threads of a backend may ask while the process ends.
Current& TheCurrent() {
  static auto* const current = new Current;
  return *current;
}

}  // namespace

RunTimeCompilation CurrentRunTimeCompilation() {
  Current& current = TheCurrent();
  MutexLock lock(&current.mutex);
  return current.setting;
}

void LogRunTimeCompilation(LogLevel level, std::string_view message, const LogFields& fields) {
  Current& current = TheCurrent();
  MutexLock lock(&current.mutex);
  if (current.logger != nullptr) current.logger->Log(level, message, fields);
}

ScopedRunTimeCompilation::ScopedRunTimeCompilation(RunTimeCompilation setting, Logger* logger) : logger_(logger) {
  Current& current = TheCurrent();
  MutexLock lock(&current.mutex);
  current.setting = std::move(setting);
  current.logger = logger;
}

ScopedRunTimeCompilation::~ScopedRunTimeCompilation() {
  Current& current = TheCurrent();
  MutexLock lock(&current.mutex);
  if (current.logger != logger_) return;
  current.setting = RunTimeCompilation();
  current.logger = nullptr;
}

}  // namespace vicinal

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
  StatsSink* stats VICINAL_GUARDED_BY(mutex) = nullptr;
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

void CountRunTimeCompilation(std::string_view outcome, double seconds) {
  Current& current = TheCurrent();
  MutexLock lock(&current.mutex);
  if (current.stats != nullptr) current.stats->KernelCompiled(outcome, seconds);
}

ScopedRunTimeCompilation::ScopedRunTimeCompilation(RunTimeCompilation setting, Logger* logger, StatsSink* stats)
    : logger_(logger) {
  Current& current = TheCurrent();
  MutexLock lock(&current.mutex);
  current.setting = std::move(setting);
  current.logger = logger;
  current.stats = stats;
}

ScopedRunTimeCompilation::~ScopedRunTimeCompilation() {
  Current& current = TheCurrent();
  MutexLock lock(&current.mutex);
  if (current.logger != logger_) return;
  current.setting = RunTimeCompilation();
  current.logger = nullptr;
  current.stats = nullptr;
}

}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// How backends may compile kernels while a server runs: one setting per process, made by whoever owns the engine, read
// by the backend's library. Thread-safe.
#ifndef VICINAL_ENGINE_KERNELS_RUN_TIME_COMPILATION_H_
#define VICINAL_ENGINE_KERNELS_RUN_TIME_COMPILATION_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/log.h"
#include "engine/base/stats.h"

namespace vicinal {

struct RunTimeCompilation {
  std::string directory;  // where compiled kernels are kept, made when missing; empty: they are not kept
  std::string compiler;   // the child's program; empty: the one beside the engine's library (../bin)
  std::chrono::milliseconds wall_time{60'000};  // after which a child is killed
  int64_t memory_bytes = int64_t{4} << 30;      // of its address space
};

RunTimeCompilation CurrentRunTimeCompilation();
// Writes to the logger of the current setting, if there is one.
void LogRunTimeCompilation(LogLevel level, std::string_view message, const LogFields& fields);
// Counts with the statistics of the current setting, if there are any: StatsSink::KernelCompiled.
void CountRunTimeCompilation(std::string_view outcome, double seconds);

// While it lives, `setting`, `logger` and `stats` hold; at most one lives at a time in a process that serves. Both must
// outlive it.
class ScopedRunTimeCompilation {
 public:
  ScopedRunTimeCompilation(RunTimeCompilation setting, Logger* logger, StatsSink* stats);
  ~ScopedRunTimeCompilation();
  ScopedRunTimeCompilation(const ScopedRunTimeCompilation&) = delete;
  ScopedRunTimeCompilation& operator=(const ScopedRunTimeCompilation&) = delete;

 private:
  Logger* const logger_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_RUN_TIME_COMPILATION_H_

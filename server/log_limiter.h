// SPDX-License-Identifier: Apache-2.0
// Bounds the log lines that clients can cause, such as failed handshakes: a few per period, with the number left out.
#ifndef VICINAL_SERVER_LOG_LIMITER_H_
#define VICINAL_SERVER_LOG_LIMITER_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"

namespace vicinal::server {

// Thread-safe.
class LogLimiter {
 public:
  // `burst`: lines per period. `clock` must outlive it.
  LogLimiter(const Clock& clock, std::chrono::milliseconds period, int burst = 1)
      : clock_(clock), period_(period), burst_(burst) {}

  // How many lines were left out since the last one; nullopt: leave this one out, too.
  std::optional<int64_t> Admit() {
    const MonotonicTime now = clock_.Now();
    MutexLock lock(&mutex_);
    if (!begin_ || now - *begin_ >= period_) begin_ = now, lines_ = 0;
    if (lines_ == burst_) {
      ++left_out_;
      return std::nullopt;
    }
    ++lines_;
    return std::exchange(left_out_, 0);
  }

 private:
  const Clock& clock_;
  const std::chrono::milliseconds period_;
  const int burst_;
  Mutex mutex_;
  std::optional<MonotonicTime> begin_ VICINAL_GUARDED_BY(mutex_);  // of the period
  int lines_ VICINAL_GUARDED_BY(mutex_) = 0;                       // in it
  int64_t left_out_ VICINAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_LOG_LIMITER_H_

// SPDX-License-Identifier: Apache-2.0
// Bounds the log lines that clients can cause, such as failed handshakes: one per period, with the number left out.
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
  // `clock` must outlive it.
  LogLimiter(const Clock& clock, std::chrono::milliseconds period) : clock_(clock), period_(period) {}

  // How many lines were left out since the last one; nullopt: leave this one out, too.
  std::optional<int64_t> Admit() {
    const MonotonicTime now = clock_.Now();
    MutexLock lock(&mutex_);
    if (last_ && now - *last_ < period_) {
      ++left_out_;
      return std::nullopt;
    }
    last_ = now;
    return std::exchange(left_out_, 0);
  }

 private:
  const Clock& clock_;
  const std::chrono::milliseconds period_;
  Mutex mutex_;
  std::optional<MonotonicTime> last_ VICINAL_GUARDED_BY(mutex_);
  int64_t left_out_ VICINAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_LOG_LIMITER_H_

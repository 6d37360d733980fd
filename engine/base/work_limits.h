// SPDX-License-Identifier: Apache-2.0
// Deadline and cancellation of a piece of work.
#ifndef VICINAL_ENGINE_BASE_WORK_LIMITS_H_
#define VICINAL_ENGINE_BASE_WORK_LIMITS_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "engine/base/clock.h"
#include "engine/base/status.h"

namespace vicinal {

// Set when nobody waits for the work any more; checked before and during work. Thread-safe.
class CancelToken {
 public:
  // The client cancelled.
  void Cancel() { Set(State::kCancelled); }
  // The client's deadline passed, which it may know before the server does.
  void Expire() { Set(State::kExpired); }
  bool cancelled() const { return state_.load(std::memory_order_relaxed) != State::kNotCancelled; }
  bool expired() const { return state_.load(std::memory_order_relaxed) == State::kExpired; }

 private:
  enum class State { kNotCancelled, kCancelled, kExpired };
  // The first cause stays.
  void Set(State state) {
    State none = State::kNotCancelled;
    state_.compare_exchange_strong(none, state, std::memory_order_relaxed);
  }

  std::atomic<State> state_{State::kNotCancelled};
};

// Conditions that end a piece of work early.
struct WorkLimits {
  std::optional<MonotonicTime> deadline;
  std::shared_ptr<const CancelToken> cancel;  // may be null
  bool default_deadline = false;              // the request came without a deadline: this one is the server's

  // OK, CANCELLED or DEADLINE_EXCEEDED.
  Status Check(const Clock& clock) const;
};

// Called between steps, and on the CPU also between blocks of rows within a step, on the thread that does the work. A
// status other than OK (cancelled, deadline) stops the work and is returned.
using StopCheck = std::function<Status()>;

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_WORK_LIMITS_H_

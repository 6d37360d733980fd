// SPDX-License-Identifier: Apache-2.0
// When calls start. Pure functions of time and a seed: they read no clock, so that tests can give them any time.
// A load is a list of steps; in each the number of calls in flight (closed loop) or of calls per second (open loop) is
// constant or grows linearly. Times are seconds since the start of the load. Not thread-safe.
#ifndef VICINAL_CLIENT_CPP_LOAD_SCHEDULE_H_
#define VICINAL_CLIENT_CPP_LOAD_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace vicinal::client::load {

// Calls in flight, or calls per second: from the first to the last value during a step.
struct Ramp {
  double from = 0;
  double to = 0;
};

// "64", "1..64", or several of these separated by commas. INVALID_ARGUMENT says what is wrong, without the option's
// name.
absl::StatusOr<std::vector<Ramp>> ParseRamps(absl::string_view text);

struct Schedule {
  std::vector<Ramp> steps;
  // Before the first step, at its first value (or its last, if the first is 0); not counted.
  double warmup_seconds = 0;
  double step_seconds = 0;
  // A step ends early once it has started so many calls; 0: by time only.
  int64_t step_calls = 0;
};

// The step of calls before the first one.
inline constexpr int kWarmup = -1;

// Which step is under way, and since when.
class Steps {
 public:
  explicit Steps(const Schedule& schedule);

  bool done() const { return current_ >= static_cast<int>(schedule_.steps.size()); }
  int current() const { return current_; }
  double start() const { return starts_.back(); }
  double seconds() const { return current_ == kWarmup ? schedule_.warmup_seconds : schedule_.step_seconds; }
  double end() const { return start() + seconds(); }
  Ramp ramp() const;
  // Goes to the next step, which starts at `time`.
  void Advance(double time);
  // Counts a call that started at `time`; true: it was the last of its step, which has ended by then.
  bool Count(double time);
  // The step in which `time` lies; kWarmup before the first, and the number of steps after the last. Steps that have
  // not started yet are taken to last their full time; a last step that ended early has no end here.
  int At(double time) const;
  // When the step started and ended; meaningful once it has ended. A last step that ended early ends at its last call.
  double StartOf(int step) const;
  double EndOf(int step) const;
  bool ended_early(int step) const { return early_[Index(step)]; }

 private:
  // Of starts_ and early_, where the warm-up comes first.
  static size_t Index(int step) { return static_cast<size_t>(step) + 1; }

  const Schedule schedule_;
  int current_ = kWarmup;
  int64_t calls_ = 0;
  std::vector<double> starts_{0.0};  // of the warm-up and of each step so far
  std::vector<bool> early_{false};
};

// Closed loop: `users` each have one call in flight, and start the next when it ends.
class ClosedLoop {
 public:
  explicit ClosedLoop(const Schedule& schedule) : schedule_(schedule), steps_(schedule) {}

  // The largest number of calls in flight.
  int users() const;

  struct Next {
    enum Kind { kStart, kPark, kEnd } kind = kEnd;
    int step = kWarmup;  // kStart: the step to which the call belongs
    double until = 0;    // kPark: when to ask again
  };
  // What user 0, 1, ... does at `now`, its call having ended. Times never decrease from call to call.
  Next Ask(int user, double now);
  const Steps& steps() const { return steps_; }

 private:
  const Schedule schedule_;
  Steps steps_;
};

// Open loop: calls start at times that do not depend on answers. Poisson: the gaps are exponential, as those of many
// independent clients; uniform: equal gaps.
class OpenLoop {
 public:
  OpenLoop(const Schedule& schedule, bool poisson, uint64_t seed)
      : steps_(schedule), poisson_(poisson), random_(seed) {}

  struct Arrival {
    double seconds = 0;
    int step = kWarmup;
  };
  // The next call, in order of time; nothing after the last.
  std::optional<Arrival> Next();
  const Steps& steps() const { return steps_; }

 private:
  Steps steps_;
  const bool poisson_;
  std::mt19937_64 random_;
  double sum_ = 0;  // of unit gaps in the current step
};

}  // namespace vicinal::client::load

#endif  // VICINAL_CLIENT_CPP_LOAD_SCHEDULE_H_

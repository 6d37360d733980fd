// SPDX-License-Identifier: Apache-2.0
// Arrivals at a rate that grows linearly: unit-rate arrivals, mapped through the inverse of the expected number of
// calls since the step's start. Steps are independent, as a Poisson process has no memory.
#include "client/cpp/load/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::load {
namespace {

constexpr double kMaxValue = 1e7;
constexpr size_t kMaxSteps = 100;

absl::StatusOr<double> ParseValue(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !(value >= 0 && value <= kMaxValue)) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a number from 0 to 1e7"));
  }
  return value;
}

// Seconds after which `calls` calls are expected, at a rate that goes from `ramp.from` to `ramp.to` in `seconds`;
// infinite if there are fewer.
double TimeOf(double calls, const Ramp& ramp, double seconds) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const double slope = (ramp.to - ramp.from) / seconds;
  if (slope == 0) return ramp.from > 0 ? calls / ramp.from : kNever;
  // slope/2 t^2 + from t = calls; this form of the root does not cancel.
  const double square = ramp.from * ramp.from + 2 * slope * calls;
  return square < 0 ? kNever : 2 * calls / (ramp.from + std::sqrt(square));
}

}  // namespace

absl::StatusOr<std::vector<Ramp>> ParseRamps(absl::string_view text) {
  std::vector<Ramp> ramps;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const size_t dots = part.find("..");
    Ramp ramp;
    CLIENT_ASSIGN_OR_RETURN(ramp.from, ParseValue(part.substr(0, dots)));
    ramp.to = ramp.from;
    if (dots != absl::string_view::npos) {
      CLIENT_ASSIGN_OR_RETURN(ramp.to, ParseValue(part.substr(dots + 2)));
    }
    if (std::max(ramp.from, ramp.to) == 0)
      return absl::InvalidArgumentError(absl::StrCat("'", part, "' starts no calls"));
    ramps.push_back(ramp);
  }
  if (ramps.size() > kMaxSteps) {
    return absl::InvalidArgumentError(absl::StrCat("has ", ramps.size(), " steps; at most ", kMaxSteps));
  }
  return ramps;
}

Steps::Steps(const Schedule& schedule) : schedule_(schedule) {
  if (schedule_.warmup_seconds <= 0) Advance(0);
}

Ramp Steps::ramp() const {
  if (current_ != kWarmup) return schedule_.steps[static_cast<size_t>(current_)];
  const Ramp& first = schedule_.steps.front();
  const double value = first.from > 0 ? first.from : first.to;
  return {value, value};
}

void Steps::Advance(double time) {
  ++current_;
  calls_ = 0;
  starts_.push_back(time);
  early_.push_back(false);
}

bool Steps::Count(double time) {
  if (current_ == kWarmup || schedule_.step_calls == 0 || ++calls_ < schedule_.step_calls) return false;
  early_[Index(current_)] = true;
  Advance(time);
  return true;
}

int Steps::At(double time) const {
  const auto after = std::upper_bound(starts_.begin() + 1, starts_.end(), time);
  const int step = static_cast<int>(after - starts_.begin()) - 2;
  // A last step that ended early lasts until its last call has ended.
  if (done() && step == current_ && ended_early(step - 1)) return step - 1;
  if (step < current_ || done()) return step;
  // The current step, or one that has not started.
  const auto last = static_cast<int>(schedule_.steps.size());
  if (time < end()) return current_;
  const double further = (time - end()) / schedule_.step_seconds;
  return static_cast<int>(std::min<double>(last, current_ + 1 + std::floor(further)));
}

double Steps::StartOf(int step) const { return starts_[Index(step)]; }
double Steps::EndOf(int step) const { return starts_[Index(step) + 1]; }

int ClosedLoop::users() const {
  double most = 0;
  for (const Ramp& ramp : schedule_.steps) most = std::max({most, ramp.from, ramp.to});
  return static_cast<int>(std::lround(most));
}

ClosedLoop::Next ClosedLoop::Ask(int user, double now) {
  while (!steps_.done() && now >= steps_.end()) steps_.Advance(steps_.end());
  if (steps_.done()) return {Next::kEnd};
  const Ramp ramp = steps_.ramp();
  // The user's place opens when the value, rounded, exceeds its number.
  const auto is_open = [&](double value) { return std::lround(value) > user; };
  const double share = (now - steps_.start()) / steps_.seconds();
  if (is_open(ramp.from + (ramp.to - ramp.from) * share)) {
    const int step = steps_.current();
    steps_.Count(now);
    return {Next::kStart, step};
  }
  if (ramp.to <= ramp.from || !is_open(ramp.to)) return {Next::kPark, steps_.current(), steps_.end()};
  const double opens = (user + 0.5 - ramp.from) / (ramp.to - ramp.from);
  // A moment later, lest rounding make it ask too early for ever.
  return {Next::kPark, steps_.current(), std::min(steps_.end(), steps_.start() + opens * steps_.seconds() + 1e-6)};
}

std::optional<OpenLoop::Arrival> OpenLoop::Next() {
  while (!steps_.done()) {
    // 1 - u is above 0, so that the logarithm is finite.
    sum_ += poisson_ ? -std::log1p(-std::generate_canonical<double, 53>(random_)) : 1.0;
    const double time = steps_.start() + TimeOf(sum_, steps_.ramp(), steps_.seconds());
    if (time >= steps_.end()) {
      steps_.Advance(steps_.end());
      sum_ = 0;
      continue;
    }
    const int step = steps_.current();
    if (steps_.Count(time)) sum_ = 0;
    return Arrival{time, step};
  }
  return std::nullopt;
}

}  // namespace vicinal::client::load

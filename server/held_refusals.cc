// SPDX-License-Identifier: Apache-2.0
#include "server/held_refusals.h"

#include <utility>

namespace vicinal::server {

HeldRefusals::HeldRefusals(const Clock& clock) : clock_(clock), thread_([this] { Loop(); }) {}

HeldRefusals::~HeldRefusals() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyOne();
  thread_.join();
  Release(std::nullopt);
}

void HeldRefusals::Answer(std::function<void()> answer) {
  const MonotonicTime now = clock_.Now();
  {
    MutexLock lock(&mutex_);
    if (now >= period_ends_ && held_.empty()) {
      const bool goes_on = of_period_ > kAtOnce && now < period_ends_ + kPeriod;
      at_once_ = goes_on ? 0 : kAtOnce;
      of_period_ = 0;
      period_ends_ = now + kPeriod;
    }
    if (++of_period_ > at_once_) {
      held_.push_back(std::move(answer));
      if (held_.size() == 1) changed_.NotifyOne();
      return;
    }
  }
  answer();
}

void HeldRefusals::Release(std::optional<MonotonicTime> now) {
  std::vector<std::function<void()>> due;
  {
    MutexLock lock(&mutex_);
    if (now && *now < period_ends_) return;
    due = std::exchange(held_, {});
  }
  for (const std::function<void()>& answer : due) answer();
}

void HeldRefusals::Loop() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (held_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (stopping_) return;
      // The period is in the injected clock's time, the wait in the machine's.
      const Nanoseconds left = period_ends_ - clock_.Now();
      if (left > Nanoseconds::zero()) changed_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + left);
    }
    Release(clock_.Now());
  }
}

}  // namespace vicinal::server

// SPDX-License-Identifier: Apache-2.0
// When refusals are sent. Clients that come back as soon as they are refused can keep all cores busy with refusing,
// which then lack to the run that others wait for. So of each period the first refusals are answered at once and all
// others together at its end: their senders return later. Where periods with many refusals follow each other, all are
// answered at the end.
#ifndef VICINAL_SERVER_HELD_REFUSALS_H_
#define VICINAL_SERVER_HELD_REFUSALS_H_

#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"

namespace vicinal::server {

// Thread-safe.
class HeldRefusals {
 public:
  // Clients that come back at once then wait for 4 to 5 ms, most of it here.
  static constexpr std::chrono::microseconds kPeriod{3250};
  static constexpr int kAtOnce = 8;  // refusals of a period that are not held; more are many

  // `clock` must outlive the object.
  explicit HeldRefusals(const Clock& clock);
  // Calls what is held.
  ~HeldRefusals();

  // Calls `answer` once: now, or within kPeriod on a thread of its own.
  void Answer(std::function<void()> answer);

 private:
  // Calls and forgets what is held once its period has ended; `now` nothing: whatever the time.
  void Release(std::optional<MonotonicTime> now);
  void Loop();

  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  MonotonicTime period_ends_ VICINAL_GUARDED_BY(mutex_){};
  int of_period_ VICINAL_GUARDED_BY(mutex_) = 0;
  int at_once_ VICINAL_GUARDED_BY(mutex_) = kAtOnce;  // of this period
  std::vector<std::function<void()>> held_ VICINAL_GUARDED_BY(mutex_);
  bool stopping_ VICINAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HELD_REFUSALS_H_

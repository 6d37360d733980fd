// SPDX-License-Identifier: Apache-2.0
// Graceful shutdown: counts calls in progress, rejects new ones while draining, and asks open streams to end.
#ifndef VICINAL_SERVER_DRAIN_H_
#define VICINAL_SERVER_DRAIN_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace vicinal::server {

// Thread-safe. Entering and leaving are one atomic operation each until draining begins.
class Drain {
 public:
  // A call starts. Returns false while draining: the caller must reject it, and still call Leave.
  bool Enter() {
    in_flight_.fetch_add(1);
    if (!draining_.load()) return true;
    CountRefused();
    return false;
  }
  void Leave();

  bool draining() const { return draining_.load(); }
  static Status Refusal();

  // For streams whose length the client decides: `end` is called once, when draining starts (immediately if it has). It
  // must return quickly and must not call this object. Returns an id for Forget, which waits for a running `end`.
  int64_t OnDrain(std::function<void()> end);
  void Forget(int64_t id);

  // Rejects new calls from now on, and asks streams to end.
  void Begin();
  // Waits until no call is in progress. Returns false if `deadline` passed or Hurry was called first.
  bool Wait(MonotonicTime deadline);
  // Waits until no call has been rejected for `quiet`, at most until `deadline` or until Hurry is called.
  void Linger(std::chrono::milliseconds quiet, MonotonicTime deadline);
  // Waits for `deadline`. Returns false if Hurry was called.
  bool Delay(MonotonicTime deadline);
  // Ends all present and future waits.
  void Hurry();
  bool hurried() const;

 private:
  void CountRefused();

  std::atomic<int64_t> in_flight_{0};
  std::atomic<bool> draining_{false};
  mutable Mutex mutex_;
  CondVar wake_;
  bool hurry_ VICINAL_GUARDED_BY(mutex_) = false;
  int64_t refused_ VICINAL_GUARDED_BY(mutex_) = 0;
  Mutex streams_mutex_;  // held while `end` functions run
  int64_t next_stream_ VICINAL_GUARDED_BY(streams_mutex_) = 1;
  std::map<int64_t, std::function<void()>> streams_ VICINAL_GUARDED_BY(streams_mutex_);
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_DRAIN_H_

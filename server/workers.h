// SPDX-License-Identifier: Apache-2.0
// Threads for what may take long and must not hold up gRPC's threads: finishing uploads, explaining plans, encoding
// large replies. The queue is bounded; what does not fit is refused, and the caller says UNAVAILABLE. A job that runs
// out of memory ends; its thread goes on.
#ifndef VICINAL_SERVER_WORKERS_H_
#define VICINAL_SERVER_WORKERS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace vicinal::server {

// Thread-safe.
class Workers {
 public:
  Workers(int num_threads, int64_t max_queue);
  // Runs what is queued, then stops. What the jobs use must still be there.
  ~Workers();

  // UNAVAILABLE (reason WORKERS_BUSY) when the queue is full: then `job` never runs.
  Status Post(std::function<void()> job);
  // For work that was admitted already, or that lets go of something: never refused.
  void PostAdmitted(std::function<void()> job);

 private:
  void Run();

  const int64_t max_queue_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<std::function<void()>> jobs_ VICINAL_GUARDED_BY(mutex_);
  bool stopping_ VICINAL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_WORKERS_H_

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

  // UNAVAILABLE (reason WORKERS_BUSY) when as many of its jobs wait as may: then `job` never runs.
  Status Post(std::function<void()> job);
  // For work that was admitted already, or that lets go of something: never refused, and takes no place of Post's.
  void PostAdmitted(std::function<void()> job);

 private:
  struct Job {
    std::function<void()> run;
    bool takes_place = false;
  };
  void Run();

  const int64_t max_queue_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<Job> jobs_ VICINAL_GUARDED_BY(mutex_);
  int64_t places_taken_ VICINAL_GUARDED_BY(mutex_) = 0;
  bool stopping_ VICINAL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_WORKERS_H_

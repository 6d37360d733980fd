// SPDX-License-Identifier: Apache-2.0
// Threads for long work that must not block gRPC's threads: finishing uploads, explaining plans, encoding large
// replies. The queue is bounded; a full queue is UNAVAILABLE. A job that runs out of memory ends; its thread continues.
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
  // Runs the queued jobs, then stops. Everything the jobs use must outlive this.
  ~Workers();

  // UNAVAILABLE (WORKERS_BUSY) if the queue is full; `job` then never runs.
  Status Post(std::function<void()> job);
  // For work that was already admitted or that releases something: always accepted, and not counted against Post's
  // bound.
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

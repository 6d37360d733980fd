// SPDX-License-Identifier: Apache-2.0
// One thread that prepares graphs, one after the other, so that uploads never take the executor's time. Bounded.
#ifndef VICINAL_ENGINE_PREPARE_PREPARATION_QUEUE_H_
#define VICINAL_ENGINE_PREPARE_PREPARATION_QUEUE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>

#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace vicinal {

// Thread-safe.
class PreparationQueue {
 public:
  using Job = std::function<void(bool stopping)>;  // `stopping`: the queue is being destroyed; return at once

  explicit PreparationQueue(int64_t max_waiting);
  // Waits for the running job, which can check stopping(); waiting jobs are called with `stopping`.
  ~PreparationQueue();

  // Reserves a place for one job, so that queueing it later cannot fail.
  // UNAVAILABLE (QUEUE_FULL).
  Status Reserve();
  // Releases a reserved place.
  void Release();
  // Queues a job in a reserved place.
  void Push(Job job);
  bool stopping() const {
    MutexLock lock(&mutex_);
    return stopping_;
  }

 private:
  void Loop();

  const int64_t max_waiting_;
  mutable Mutex mutex_;
  CondVar came_;
  std::deque<Job> jobs_ VICINAL_GUARDED_BY(mutex_);
  int64_t places_taken_ VICINAL_GUARDED_BY(mutex_) = 0;  // reserved or waiting
  bool stopping_ VICINAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARE_PREPARATION_QUEUE_H_

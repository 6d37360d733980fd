// SPDX-License-Identifier: Apache-2.0
#include "server/workers.h"

#include <new>
#include <utility>

#include "engine/base/error.h"

namespace vicinal::server {

Workers::Workers(int num_threads, int64_t max_queue) : max_queue_(max_queue) {
  threads_.reserve(num_threads);
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Run(); });
}

Workers::~Workers() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

Status Workers::Post(std::function<void()> job) {
  {
    MutexLock lock(&mutex_);
    if (static_cast<int64_t>(jobs_.size()) >= max_queue_) {
      return Unavailable("WORKERS_BUSY", "too much work waits already; try again", std::chrono::milliseconds(500));
    }
    jobs_.push_back(std::move(job));
  }
  wake_.NotifyOne();
  return OkStatus();
}

void Workers::PostAdmitted(std::function<void()> job) {
  {
    MutexLock lock(&mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.NotifyOne();
}

void Workers::Run() {
  while (true) {
    std::function<void()> job;
    {
      MutexLock lock(&mutex_);
      while (jobs_.empty() && !stopping_) wake_.Wait(&mutex_);
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    try {
      job();
    } catch (const std::bad_alloc&) {
      // Jobs answer for themselves; whatever else failed, the thread stays for the others.
    }
  }
}

}  // namespace vicinal::server

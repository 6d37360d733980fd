// SPDX-License-Identifier: Apache-2.0
#include "server/workers.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
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
    if (places_taken_ >= max_queue_) {
      return Unavailable("WORKERS_BUSY",
                         absl::StrCat(max_queue_,
                                      " jobs (finished uploads, explanations, large replies) are waiting, the "
                                      "maximum (--max_worker_queue); retry later"),
                         std::chrono::milliseconds(500));
    }
    jobs_.push_back({std::move(job), true});
    ++places_taken_;
  }
  wake_.NotifyOne();
  return OkStatus();
}

void Workers::PostAdmitted(std::function<void()> job) {
  {
    MutexLock lock(&mutex_);
    jobs_.push_back({std::move(job), false});
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
      job = std::move(jobs_.front().run);
      if (jobs_.front().takes_place) --places_taken_;
      jobs_.pop_front();
    }
    try {
      job();
    } catch (const std::bad_alloc&) {
      // Jobs report their own errors; in any case the thread must continue for the others.
    }
  }
}

}  // namespace vicinal::server

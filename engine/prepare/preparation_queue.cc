// SPDX-License-Identifier: Apache-2.0
#include "engine/prepare/preparation_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal {

PreparationQueue::PreparationQueue(int64_t max_waiting) : max_waiting_(max_waiting), thread_([this] { Loop(); }) {}

PreparationQueue::~PreparationQueue() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  came_.NotifyAll();
  thread_.join();
}

Status PreparationQueue::Reserve() {
  MutexLock lock(&mutex_);
  if (places_taken_ >= max_waiting_) {
    return Unavailable(
        "QUEUE_FULL",
        absl::StrCat(max_waiting_,
                     " graphs are waiting for preparation, the maximum (--max_preparations); retry later"),
        std::chrono::seconds(1));
  }
  ++places_taken_;
  return OkStatus();
}

void PreparationQueue::Release() {
  MutexLock lock(&mutex_);
  --places_taken_;
}

void PreparationQueue::Push(Job job) {
  {
    MutexLock lock(&mutex_);
    jobs_.push_back(std::move(job));
  }
  came_.NotifyOne();
}

void PreparationQueue::Loop() {
  while (true) {
    Job job;
    bool stopping = false;
    {
      MutexLock lock(&mutex_);
      while (jobs_.empty() && !stopping_) came_.Wait(&mutex_);
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      --places_taken_;
      stopping = stopping_;
    }
    job(stopping);
  }
}

}  // namespace vicinal

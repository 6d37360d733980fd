// SPDX-License-Identifier: Apache-2.0
#include "server/drain.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"

namespace vicinal::server {

void Drain::Leave() {
  // The counter and the flag are both sequentially consistent: either this sees the draining, or Wait sees the count.
  if (in_flight_.fetch_sub(1) == 1 && draining_.load()) {
    MutexLock lock(&mutex_);
    wake_.NotifyAll();
  }
}

Status Drain::Refusal() {
  return OrOutOfMemory([] {
    return Unavailable("DRAINING", "the server is stopping; try again, another replica may answer",
                       std::chrono::milliseconds(1000));
  });
}

int64_t Drain::OnDrain(std::function<void()> end) {
  MutexLock lock(&streams_mutex_);
  if (draining_.load()) {
    end();
    return 0;
  }
  streams_[next_stream_] = std::move(end);
  return next_stream_++;
}

void Drain::Forget(int64_t id) {
  MutexLock lock(&streams_mutex_);
  streams_.erase(id);
}

void Drain::Begin() {
  draining_.store(true);
  MutexLock lock(&streams_mutex_);
  for (const auto& [id, end] : streams_) end();
  streams_.clear();
}

bool Drain::Wait(MonotonicTime deadline) {
  MutexLock lock(&mutex_);
  while (in_flight_.load() > 0 && !hurry_) {
    if (!wake_.WaitUntil(&mutex_, deadline)) return in_flight_.load() == 0;
  }
  return in_flight_.load() == 0;
}

void Drain::Linger(std::chrono::milliseconds quiet, MonotonicTime deadline) {
  MutexLock lock(&mutex_);
  while (!hurry_) {
    const int64_t seen = refused_;
    const MonotonicTime until = std::min<MonotonicTime>(deadline, std::chrono::steady_clock::now() + quiet);
    while (refused_ == seen && !hurry_) {
      if (!wake_.WaitUntil(&mutex_, until)) {
        if (refused_ == seen || until == deadline) return;
        break;
      }
    }
  }
}

void Drain::CountRefused() {
  MutexLock lock(&mutex_);
  ++refused_;
  wake_.NotifyAll();
}

bool Drain::Delay(MonotonicTime deadline) {
  MutexLock lock(&mutex_);
  while (!hurry_) {
    if (!wake_.WaitUntil(&mutex_, deadline)) return true;
  }
  return false;
}

void Drain::Hurry() {
  MutexLock lock(&mutex_);
  hurry_ = true;
  wake_.NotifyAll();
}

bool Drain::hurried() const {
  MutexLock lock(&mutex_);
  return hurry_;
}

}  // namespace vicinal::server

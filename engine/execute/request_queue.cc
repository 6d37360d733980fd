// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/request_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/error.h"

namespace vicinal {

Status DrainingRefusal() {
  return Unavailable("DRAINING", "this server is shutting down and takes no new requests; retry on another",
                     std::chrono::seconds(1));
}

RequestQueue::RequestQueue(Options options)
    : options_(options), stats_(options.stats != nullptr ? *options.stats : StatsSink::Null()) {
  VICINAL_CHECK(options_.clock != nullptr);
}

Status RequestQueue::Push(QueuedRequest request) {
  request.arrival = options_.clock->Now();
  int64_t depth = 0;
  {
    MutexLock lock(&mutex_);
    if (draining_ || stopping_) return DrainingRefusal();
    depth = static_cast<int64_t>(requests_.size()) + 1;
    if (depth > options_.max_requests) {
      return Unavailable(
          "QUEUE_FULL",
          absl::StrCat(options_.max_requests, " requests are waiting, the maximum (--max_queue); retry later"),
          std::chrono::milliseconds(100));
    }
    requests_.push_back(std::move(request));
    wanted_.store(true, std::memory_order_relaxed);
  }
  work_came_.NotifyOne();
  stats_.QueueDepth(depth);
  return OkStatus();
}

void RequestQueue::PushBackground(BackgroundWork work) {
  {
    MutexLock lock(&mutex_);
    background_.push_back(std::move(work));
  }
  work_came_.NotifyOne();
}

void RequestQueue::EndTurn() {
  busy_ = false;
  if (running_since_) busy_seconds_ += SecondsBetween(*running_since_, options_.clock->Now());
  running_since_.reset();
  if (empty()) became_idle_.NotifyAll();
}

std::deque<BackgroundWork>::iterator RequestQueue::NextBackground() {
  if (requests_.empty()) return background_.begin();
  if (background_.empty()) return background_.end();
  const MonotonicTime now = options_.clock->Now();
  return std::find_if(background_.begin(), background_.end(),
                      [now](const BackgroundWork& work) { return work.due && *work.due <= now; });
}

std::optional<RequestQueue::Turn> RequestQueue::Next() {
  std::optional<Turn> turn;
  int64_t depth = 0;
  {
    MutexLock lock(&mutex_);
    EndTurn();
    while (empty() && !stopping_) work_came_.Wait(&mutex_);
    if (empty()) return std::nullopt;
    busy_ = true;
    if (const auto background = NextBackground(); background != background_.end()) {
      turn.emplace(Turn{std::move(*background), draining_ || stopping_ ? DrainingRefusal() : OkStatus()});
      background_.erase(background);
      return turn;
    }
    running_since_ = options_.clock->Now();
    turn.emplace(Turn{std::move(requests_.front()), OkStatus()});
    requests_.pop_front();
    depth = static_cast<int64_t>(requests_.size());
    wanted_.store(depth > 0 || draining_ || stopping_, std::memory_order_relaxed);
  }
  stats_.QueueDepth(depth);
  turn->admitted = std::get<QueuedRequest>(turn->work).limits.Check(*options_.clock);
  return turn;
}

bool RequestQueue::Drain(MonotonicTime deadline) {
  MutexLock lock(&mutex_);
  draining_ = true;
  ending_.store(true, std::memory_order_relaxed);
  wanted_.store(true, std::memory_order_relaxed);
  while (busy_ || !empty()) {
    // The deadline is in the injected clock's time, the wait in the machine's.
    const Nanoseconds left = deadline - options_.clock->Now();
    if (left <= Nanoseconds::zero()) return false;
    became_idle_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + left);
  }
  return true;
}

void RequestQueue::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    ending_.store(true, std::memory_order_relaxed);
    wanted_.store(true, std::memory_order_relaxed);
  }
  work_came_.NotifyAll();
}

int64_t RequestQueue::depth() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(requests_.size());
}

double RequestQueue::busy_seconds() const {
  MutexLock lock(&mutex_);
  return busy_seconds_ + (running_since_ ? SecondsBetween(*running_since_, options_.clock->Now()) : 0.0);
}

QueueSnapshot RequestQueue::Snapshot() const {
  QueueSnapshot snapshot;
  MutexLock lock(&mutex_);
  for (const QueuedRequest& request : requests_) {
    const WorkLimits& limits = request.limits;
    snapshot.requests.push_back({request.key, request.answer, request.arrival, limits.deadline,
                                 limits.cancel != nullptr && limits.cancel->cancelled()});
  }
  for (const BackgroundWork& work : background_) snapshot.background.push_back(work.purpose);
  return snapshot;
}

}  // namespace vicinal

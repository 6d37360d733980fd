// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/request_queue.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/error.h"

namespace vicinal {
namespace {

// Bounds of what refused clients are told to wait.
constexpr double kMinRetrySeconds = 0.01, kMaxRetrySeconds = 10.0;

int64_t Milliseconds(double seconds) { return static_cast<int64_t>(std::ceil(seconds * 1e3)); }

Status Overloaded(double before, double run) {
  return Unavailable("OVERLOADED",
                     absl::StrCat("the deadline would pass first: about ", Milliseconds(before),
                                  " ms of work come before this request, which takes ", Milliseconds(run),
                                  " ms; retry later, or allow more time"),
                     std::chrono::milliseconds(Milliseconds(std::clamp(before, kMinRetrySeconds, kMaxRetrySeconds))));
}

Status DeadlineTooShort(double left, double run) {
  ErrorDetail detail;
  detail.reason = "DEADLINE_TOO_SHORT";
  return MakeError(
      StatusCode::kDeadlineExceeded,
      absl::StrCat("the deadline is in ", Milliseconds(std::max(0.0, left)), " ms, but this request takes ",
                   Milliseconds(run), " ms; allow more time or ask for less"),
      detail);
}

// For StatsSink::RequestDropped.
std::string_view DropReason(const Status& status) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  const std::string reason = detail ? detail->reason : std::string();
  if (reason == "QUEUE_FULL") return "queue_full";
  if (reason == "CLIENT_QUEUE_FULL") return "client_full";
  if (reason == "OVERLOADED") return "overloaded";
  if (reason == "DEADLINE_TOO_SHORT") return "deadline_too_short";
  if (reason == "CANCELLED") return "cancelled";
  return reason == "DEADLINE_EXCEEDED" ? "expired" : "draining";
}

}  // namespace

Status DrainingRefusal() {
  return Unavailable("DRAINING", "this server is shutting down and takes no new requests; retry on another",
                     std::chrono::seconds(1));
}

RequestQueue::RequestQueue(Options options)
    : options_(options), stats_(options.stats != nullptr ? *options.stats : StatsSink::Null()) {
  VICINAL_CHECK(options_.clock != nullptr);
}

Status RequestQueue::CheckTime(const QueuedRequest& request, const RunTimes::Estimate& estimate,
                               MonotonicTime now) const {
  if (!request.limits.deadline || estimate.run <= 0.0) return OkStatus();
  const double left = SecondsBetween(now, *request.limits.deadline);
  if (left < estimate.run) return DeadlineTooShort(left, estimate.run);
  double before = requests_.SecondsBefore(request);
  if (running_) before += std::max(0.0, running_->predicted - SecondsBetween(running_->since, now));
  return left < before + estimate.run ? Overloaded(before, estimate.run) : OkStatus();
}

Status RequestQueue::Take(QueuedRequest request) {
  if (draining_ || stopping_) return DrainingRefusal();
  if (requests_.size() >= options_.max_requests) {
    return Unavailable(
        "QUEUE_FULL",
        absl::StrCat(options_.max_requests, " requests are waiting, the maximum (--max_queue); retry later"),
        std::chrono::milliseconds(100));
  }
  if (options_.max_per_client > 0 && requests_.waiting_of(request.requester.principal) >= options_.max_per_client) {
    return Unavailable("CLIENT_QUEUE_FULL",
                       absl::StrCat(options_.max_per_client, " requests of '", request.requester.principal,
                                    "' are waiting, the maximum for one client (--max_queue_per_client); retry later"),
                       std::chrono::milliseconds(100));
  }
  FairQueue::Entry entry;
  entry.kind = RunKindOf(request);
  const RunTimes::Estimate estimate = run_times_.Of(entry.kind, request.arrival);
  VICINAL_RETURN_IF_ERROR(CheckTime(request, estimate, request.arrival));
  entry.predicted = estimate.share;
  entry.request = std::move(request);
  requests_.Push(std::move(entry));
  wanted_.store(true, std::memory_order_relaxed);
  return OkStatus();
}

Status RequestQueue::Push(QueuedRequest request) {
  request.arrival = options_.clock->Now();
  int64_t depth = 0;
  Status taken;
  {
    MutexLock lock(&mutex_);
    taken = Take(std::move(request));
    depth = requests_.size();
  }
  if (!taken.ok()) {
    stats_.RequestDropped(DropReason(taken));
    return taken;
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
  if (running_) {
    const double seconds = SecondsBetween(running_->since, options_.clock->Now());
    busy_seconds_ += seconds;
    requests_.Settle(running_->ticket, seconds);
  }
  running_.reset();
  if (empty()) became_idle_.NotifyAll();
}

void RequestQueue::Measured(double seconds, bool finished) {
  MutexLock lock(&mutex_);
  if (!running_) return;
  const MonotonicTime now = options_.clock->Now();
  if (finished) {
    run_times_.Record(running_->kind, seconds, 1, now);
  } else {
    run_times_.RecordAtLeast(running_->kind, seconds, now);
  }
}

Status RequestQueue::CheckTurn(const QueuedRequest& request, double run_seconds) const {
  VICINAL_RETURN_IF_ERROR(request.limits.Check(*options_.clock));
  if (!request.limits.deadline) return OkStatus();
  const double left = SecondsBetween(options_.clock->Now(), *request.limits.deadline);
  // It was accepted because a run would fit: the wait was longer than expected.
  return left < run_seconds ? Overloaded(run_seconds - left, run_seconds) : OkStatus();
}

std::deque<BackgroundWork>::iterator RequestQueue::NextBackground() {
  if (requests_.size() == 0) return background_.begin();
  if (background_.empty()) return background_.end();
  const MonotonicTime now = options_.clock->Now();
  return std::find_if(background_.begin(), background_.end(),
                      [now](const BackgroundWork& work) { return work.due && *work.due <= now; });
}

std::optional<RequestQueue::Turn> RequestQueue::Next() {
  std::optional<Turn> turn;
  int64_t depth = 0;
  double run_seconds = 0.0;
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
    const MonotonicTime now = options_.clock->Now();
    FairQueue::Served next = requests_.Pop();
    run_seconds = run_times_.Of(next.entry.kind, now).run;
    running_ = {std::move(next.ticket), next.entry.kind, run_seconds, now};
    turn.emplace(Turn{std::move(next.entry.request), OkStatus()});
    depth = requests_.size();
    wanted_.store(depth > 0 || draining_ || stopping_, std::memory_order_relaxed);
  }
  stats_.QueueDepth(depth);
  turn->admitted = CheckTurn(std::get<QueuedRequest>(turn->work), run_seconds);
  if (!turn->admitted.ok()) stats_.RequestDropped(DropReason(turn->admitted));
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
  return requests_.size();
}

double RequestQueue::busy_seconds() const {
  MutexLock lock(&mutex_);
  return busy_seconds_ + (running_ ? SecondsBetween(running_->since, options_.clock->Now()) : 0.0);
}

QueueSnapshot RequestQueue::Snapshot() const {
  QueueSnapshot snapshot;
  MutexLock lock(&mutex_);
  requests_.ForEach([&snapshot](const FairQueue::Entry& entry) {
    const WorkLimits& limits = entry.request.limits;
    snapshot.requests.push_back({entry.request.key, entry.request.answer, entry.request.arrival, limits.deadline,
                                 limits.cancel != nullptr && limits.cancel->cancelled()});
  });
  for (const BackgroundWork& work : background_) snapshot.background.push_back(work.purpose);
  return snapshot;
}

}  // namespace vicinal

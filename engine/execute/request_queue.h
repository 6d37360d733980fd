// SPDX-License-Identifier: Apache-2.0
// The requests that wait for one executor, in fair order (fair_queue.h), and its background work. Bounded, also for
// each principal. The queue decides what runs next and when there is nothing to do; it runs nothing itself.
//
// A request that cannot be answered before its deadline is refused when it arrives, or when its turn comes: work that
// nobody will read would delay all others. How long a run takes is measured (run_times.h); what was never measured is
// never refused for it.
#ifndef VICINAL_ENGINE_EXECUTE_REQUEST_QUEUE_H_
#define VICINAL_ENGINE_EXECUTE_REQUEST_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <variant>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/execute/fair_queue.h"
#include "engine/execute/queued_request.h"
#include "engine/execute/run_times.h"

namespace vicinal {

// The queue at one moment.
struct QueueSnapshot {
  struct Request {
    RequestKey key;
    AnswerShape answer;
    MonotonicTime arrival{};
    std::optional<MonotonicTime> deadline;
    bool cancelled = false;
  };
  std::vector<Request> requests;             // oldest first
  std::vector<std::string_view> background;  // purposes, next first
};

// UNAVAILABLE (DRAINING): the refusal of a queue that is draining or stopping.
Status DrainingRefusal();

// Thread-safe. One thread, the consumer, calls Next until there is nothing left.
class RequestQueue final : public Lease {
 public:
  struct Options {
    int64_t max_requests = 1024;   // that wait
    const Clock* clock = nullptr;  // must outlive the queue
    StatsSink* stats = nullptr;    // null: none; must outlive the queue
    int64_t max_per_client = 0;    // of max_requests, for each principal; 0: no bound
  };
  // What the consumer does next.
  struct Turn {
    std::variant<QueuedRequest, BackgroundWork> work;
    // Why it must not run: for requests CANCELLED, DEADLINE_EXCEEDED, or UNAVAILABLE (OVERLOADED); for background work
    // UNAVAILABLE (DRAINING).
    Status admitted;
  };
  explicit RequestQueue(Options options);

  // UNAVAILABLE with reason QUEUE_FULL, CLIENT_QUEUE_FULL (the principal's part), OVERLOADED (the deadline would pass
  // before the run could end), or DRAINING after Drain and Stop; DEADLINE_EXCEEDED (DEADLINE_TOO_SHORT) if a run alone
  // takes longer than the deadline allows. Then `request` was not taken, and its callback is never called.
  Status Push(QueuedRequest request);
  // Always takes the work, and does not count it against max_requests: callers wait for their previous work before they
  // submit more.
  void PushBackground(BackgroundWork work);

  // Blocks until there is something to do; requests come before background work that is not due. nullopt: the queue was
  // stopped and is empty. The turn before this one counts as ended, so the consumer destroys it first.
  std::optional<Turn> Next();
  // The consumer's, during the turn of a request: its run took `seconds`, without building the plan; or it was given up
  // after them because its deadline passed.
  void Measured(double seconds, bool finished);

  // Refuses new requests from now on. Returns once everything in the queue has been done, or false at `deadline`.
  bool Drain(MonotonicTime deadline);
  // Refuses new requests, and lets Next end once the queue is empty.
  void Stop();

  // Of background work: a request waits, or the queue is draining or stopping.
  bool ShouldStop() const override { return wanted_.load(std::memory_order_relaxed); }
  bool Ending() const override { return ending_.load(std::memory_order_relaxed); }

  int64_t depth() const;  // requests that wait
  // How long the consumer has been busy with requests, the one that runs now included. Never falls.
  double busy_seconds() const;
  QueueSnapshot Snapshot() const;

 private:
  // The request whose turn it is.
  struct Running {
    FairQueue::Ticket ticket;
    RunKind kind = 0;
    double predicted = 0.0;  // seconds
    MonotonicTime since{};
  };

  void EndTurn() VICINAL_REQUIRES(mutex_);
  // Why a request with that deadline must not wait: OK, OVERLOADED or DEADLINE_TOO_SHORT.
  Status CheckTime(const QueuedRequest& request, const RunTimes::Estimate& estimate, MonotonicTime now) const
      VICINAL_REQUIRES(mutex_);
  Status Take(QueuedRequest request) VICINAL_REQUIRES(mutex_);
  // Why the request, whose turn came after a wait, must not run.
  Status CheckTurn(const QueuedRequest& request, double run_seconds) const;
  // The first background work that is due, or the first of all if no request waits; end() if it is a request's turn.
  std::deque<BackgroundWork>::iterator NextBackground() VICINAL_REQUIRES(mutex_);
  bool empty() const VICINAL_REQUIRES(mutex_) { return requests_.size() == 0 && background_.empty(); }

  const Options options_;
  StatsSink& stats_;
  mutable Mutex mutex_;
  CondVar work_came_, became_idle_;
  FairQueue requests_ VICINAL_GUARDED_BY(mutex_);
  RunTimes run_times_ VICINAL_GUARDED_BY(mutex_);
  std::deque<BackgroundWork> background_ VICINAL_GUARDED_BY(mutex_);
  bool busy_ VICINAL_GUARDED_BY(mutex_) = false;  // a turn is under way
  std::optional<Running> running_ VICINAL_GUARDED_BY(mutex_);
  double busy_seconds_ VICINAL_GUARDED_BY(mutex_) = 0.0;  // of the turns that ended
  bool draining_ VICINAL_GUARDED_BY(mutex_) = false;
  bool stopping_ VICINAL_GUARDED_BY(mutex_) = false;
  // Requests wait, or the queue is draining or stopping. Written under the mutex, read without it.
  std::atomic<bool> wanted_{false};
  std::atomic<bool> ending_{false};  // draining or stopping; likewise
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_REQUEST_QUEUE_H_

// SPDX-License-Identifier: Apache-2.0
// The requests that wait for one executor, in fair order (fair_queue.h), and its background work. Bounded, also for
// each principal. The queue decides what runs next and when there is nothing to do; it runs nothing itself.
//
// Requests that wait for the same are handed out together, to share a run. A request that cannot be answered before its
// deadline is refused when it arrives, or when its turn comes: work that nobody will read would delay all others. How
// long a run takes is measured (run_times.h); what was never measured is never refused for it.
//
// There are two consumers. The main one takes everything. While it is busy with something long, the side one takes
// small interactive requests for other graphs and models, so that they do not wait for it.
#ifndef VICINAL_ENGINE_EXECUTE_REQUEST_QUEUE_H_
#define VICINAL_ENGINE_EXECUTE_REQUEST_QUEUE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/execute/fair_queue.h"
#include "engine/execute/queue_refusals.h"
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

// Thread-safe. One thread, the main consumer, calls Next until there is nothing left; another one, if there is a side
// consumer, NextSmall.
class RequestQueue final : public Lease {
 public:
  struct Options {
    int64_t max_requests = 1024;   // that wait
    const Clock* clock = nullptr;  // must outlive the queue
    StatsSink* stats = nullptr;    // null: none; must outlive the queue
    int64_t max_per_client = 0;    // of max_requests, for each principal; 0: no bound
    // How long a request may wait for others to share its run with, while there is nothing else to do. The wait ends
    // earlier where a deadline of those that wait would not allow the run any more.
    Nanoseconds max_batch_delay{0};
    // A run of the main consumer that takes longer does not keep small requests waiting: the side consumer takes them.
    // Waking another thread for less would cost more than it saves.
    Nanoseconds long_run = std::chrono::milliseconds(2);
  };
  // What a consumer does next.
  struct Turn {
    std::variant<QueuedRequest, BackgroundWork> work;
    // Why it must not run: for requests CANCELLED, DEADLINE_EXCEEDED, or UNAVAILABLE (SERVER_OVERLOADED); for
    // background work UNAVAILABLE (DRAINING).
    Status admitted;
    // Requests that may share the run of `work`, if it may run (MayShareRun). None has been cancelled or has expired.
    std::vector<QueuedRequest> company;
  };
  // Runs of more requests than that would answer the first of them late.
  static constexpr size_t kMaxTogether = 256;

  explicit RequestQueue(Options options);

  // UNAVAILABLE with reason QUEUE_FULL, CLIENT_QUEUE_FULL (the principal's part), SERVER_OVERLOADED (the deadline would
  // pass before the run could end), or DRAINING after Drain and Stop; DEADLINE_EXCEEDED (DEADLINE_TOO_SHORT) if a run
  // alone takes longer than the deadline allows. Then `request` was not taken, and its callback is never called.
  Status Push(QueuedRequest request);
  // The error that Push would give for such a request now, which counts as one that was dropped. For requests that are
  // costly to complete: what they bring (features, `replaced`) may still be missing.
  Status Check(const QueuedRequest& request) const;
  // Always takes the work, and does not count it against max_requests: callers wait for their previous work before they
  // submit more.
  void PushBackground(BackgroundWork work);

  // Blocks until there is something to do; requests come before background work that is not due. nullopt: the queue was
  // stopped and is empty. The turn before this one counts as ended, so the consumer destroys it first.
  std::optional<Turn> Next();
  // The same for the side consumer: blocks until a small interactive request waits, and the main consumer is busy with
  // something long for another graph or model that does not give way to requests. nullopt: the queue was stopped.
  std::optional<Turn> NextSmall();
  // The main consumer's, during the turn of requests: their run took `seconds`, without building the plan; or it was
  // given up after them because deadlines passed.
  void Measured(double seconds, bool finished);
  // The side consumer's: the run, with one thread and beside another, took `seconds`.
  void MeasuredSmall(double seconds);

  // Refuses new requests from now on. Returns once everything in the queue has been done, or false at `deadline`.
  bool Drain(MonotonicTime deadline);
  // Refuses new requests, and lets Next end once the queue is empty.
  void Stop();

  // Of background work: a request waits, or the queue is draining or stopping.
  bool ShouldStop() const override { return wanted_.load(std::memory_order_relaxed); }
  bool Ending() const override { return ending_.load(std::memory_order_relaxed); }

  int64_t depth() const;  // requests that wait
  // How long the main consumer has been busy with requests, those that run now included. Never falls.
  double busy_seconds() const;
  QueueSnapshot Snapshot() const;

 private:
  struct Rider {
    FairQueue::Ticket ticket;
    RunKind kind = 0;
    double weight = 1.0;  // of the run's time, relative to the other riders
  };
  // What those that share a run pay for it, in seconds.
  struct Parts {
    double first = 0.0;      // the request whose turn it is
    double by_weight = 0.0;  // each other one, times its weight
  };
  // What a consumer does now.
  struct Running {
    std::vector<Rider> riders;  // none: background work; first the one whose turn it is
    std::optional<FairQueue::Pair> pair;
    bool gives_way = false;          // background work that ends when a request waits
    double predicted = 0.0;          // seconds; 0: unknown
    double alone = 0.0;              // what it would take for its first rider alone, in seconds; 0: unknown
    std::optional<double> measured;  // seconds, without building the plan
    MonotonicTime since{};
  };

  // Both consumers are done with `running`.
  void EndTurn(std::optional<Running>* running) VICINAL_REQUIRES(mutex_);
  // Why a request of that kind that comes `now` is not taken; codes as Push.
  Status CheckPlace(const QueuedRequest& request, RunKind kind, MonotonicTime now) const VICINAL_REQUIRES(mutex_);
  // The part of it that is about time: OK, SERVER_OVERLOADED or DEADLINE_TOO_SHORT.
  Status CheckTime(const QueuedRequest& request, RunKind kind, MonotonicTime now) const VICINAL_REQUIRES(mutex_);
  // What is left of the run that it would wait for: the main consumer's, or the side one's if that takes it.
  double SecondsOfRunning(const QueuedRequest& request, RunKind kind, MonotonicTime now) const VICINAL_REQUIRES(mutex_);
  Status Take(QueuedRequest request) VICINAL_REQUIRES(mutex_);
  // When a run with the request must begin to end before its deadline, by what runs took, without the parts that all
  // that wait have in it.
  MonotonicTime StartBy(const FairQueue::Entry& entry) const VICINAL_REQUIRES(mutex_);
  void WaitForCompany() VICINAL_REQUIRES(mutex_);
  // Begins the turn of a request, with those that may share its run and for which `accept` is true.
  Turn Begin(FairQueue::Served served, const std::function<bool(const FairQueue::Entry& entry)>& accept,
             std::optional<Running>* running) VICINAL_REQUIRES(mutex_);
  // Why the request, whose turn came after a wait, must not run.
  Status CheckTurn(const FairQueue::Entry& entry, MonotonicTime now) const VICINAL_REQUIRES(mutex_);
  void AddCompany(const FairQueue::Ticket& ticket, double predicted,
                  const std::function<bool(const FairQueue::Entry& entry)>& accept, Turn* turn, Running* running)
      VICINAL_REQUIRES(mutex_);
  // Of `seconds` that the turn of `running` took: the first pays for the run as if it were alone, the others for what
  // they have added. Where it is not known what it takes alone, all pay by their weights.
  static Parts PartsOf(const Running& running, double seconds);
  static void RecordShares(const Running& running, double seconds, RunTimes* times);
  // Whether the side consumer may take it while the main one does what it does.
  bool MayRunAside(const QueuedRequest& request, RunKind kind) const VICINAL_REQUIRES(mutex_);
  // Whether the side consumer must hear of it now.
  bool WakesSide(const FairQueue::Entry& entry) const VICINAL_REQUIRES(mutex_);
  // When the main consumer's work counts as long; nullopt: it does nothing that keeps requests from running.
  std::optional<MonotonicTime> LongFrom() const VICINAL_REQUIRES(mutex_);
  void UpdateWanted() VICINAL_REQUIRES(mutex_);
  void Report(const Turn& turn, int64_t depth) const;
  // The first background work that is due, or the first of all if no request waits; end() if it is a request's turn.
  std::deque<BackgroundWork>::iterator NextBackground() VICINAL_REQUIRES(mutex_);
  bool empty() const VICINAL_REQUIRES(mutex_) { return requests_.size() == 0 && background_.empty(); }

  const Options options_;
  StatsSink& stats_;
  mutable Mutex mutex_;
  CondVar work_came_, small_work_came_, became_idle_;
  FairQueue requests_ VICINAL_GUARDED_BY(mutex_);
  RunTimes run_times_ VICINAL_GUARDED_BY(mutex_);
  std::deque<BackgroundWork> background_ VICINAL_GUARDED_BY(mutex_);
  std::optional<Running> main_ VICINAL_GUARDED_BY(mutex_);
  std::optional<Running> side_ VICINAL_GUARDED_BY(mutex_);
  bool has_side_ VICINAL_GUARDED_BY(mutex_) = false;
  bool side_looks_soon_ VICINAL_GUARDED_BY(mutex_) = false;   // it has set itself a time
  MonotonicTime waiting_since_ VICINAL_GUARDED_BY(mutex_){};  // of a queue that is not empty
  MonotonicTime start_by_ VICINAL_GUARDED_BY(mutex_){};       // the earliest StartBy since then
  double busy_seconds_ VICINAL_GUARDED_BY(mutex_) = 0.0;      // of the main consumer's turns that ended
  bool draining_ VICINAL_GUARDED_BY(mutex_) = false;
  bool stopping_ VICINAL_GUARDED_BY(mutex_) = false;
  // Requests wait, or the queue is draining or stopping. Written under the mutex, read without it.
  std::atomic<bool> wanted_{false};
  std::atomic<bool> ending_{false};  // draining or stopping; likewise
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_REQUEST_QUEUE_H_

// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/request_queue.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/base/check.h"
#include "engine/execute/links/link_query.h"
#include "engine/execute/queue_refusals.h"

namespace vicinal {
namespace {

// A request is small if it wants few nodes and is known to take little; one that was never run counts as small.
constexpr size_t kSmallNodes = 1024;
// Pairs of nodes that are scored: with an MLP each costs a run of it.
constexpr int64_t kSmallPairs = int64_t{1} << 14;
constexpr double kSmallSeconds = 0.005;

// Batches of graphs share a run up to so many nodes: a larger one gains nothing from company.
constexpr int64_t kMaxOwnNodes = int64_t{1} << 16;

Nanoseconds NanosecondsOf(double seconds) {
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(seconds));
}

// Seconds until the deadline; infinite without one.
double SecondsLeft(const QueuedRequest& request, MonotonicTime now) {
  return request.limits.deadline ? SecondsBetween(now, *request.limits.deadline) : HUGE_VAL;
}

// Nodes of a graph that the request brings.
int64_t OwnNodes(const QueuedRequest& request) {
  return request.key.private_id != 0 && request.graph != nullptr ? request.graph->num_nodes() : 0;
}

// A score of a link costs about as much as a 256th of a row.
double WeightOf(const QueuedRequest& request) {
  const double scores = request.links != nullptr ? static_cast<double>(request.links->num_pairs()) / 256 : 0.0;
  return static_cast<double>(std::max<int64_t>(1, request.answer.rows)) + scores;
}

}  // namespace

RequestQueue::RequestQueue(Options options)
    : options_(options), stats_(options.stats != nullptr ? *options.stats : StatsSink::Null()) {
  VICINAL_CHECK(options_.clock != nullptr);
}

// --- what comes ---

double RequestQueue::SecondsOfRunning(const QueuedRequest& request, RunKind kind, MonotonicTime now) const {
  const bool aside = has_side_ && LongFrom() && MayRunAside(request, kind);
  const std::optional<Running>& running = aside ? side_ : main_;
  if (!running) return 0.0;
  return std::max(0.0, running->predicted - SecondsBetween(running->since, now));
}

Status RequestQueue::CheckTime(const QueuedRequest& request, RunKind kind, MonotonicTime now) const {
  const double left = SecondsLeft(request, now);
  if (left <= 0.0) return request.limits.Check(*options_.clock);
  const double run = run_times_.Alone(kind, now);
  if (left < run) return DeadlineTooShort(left, run);
  const double before = requests_.SecondsBefore(request) + SecondsOfRunning(request, kind, now);
  // Under overload everything waits until its deadline is as near as it may be: without time to spare half of the runs
  // would end too late. What runs deviate by adds up in squares.
  // Runs before it are counted by an estimate that does not fade: by one that has, work of a second would be very many.
  const double spare =
      before > 0.0 && run > 0.0 ? run_times_.Late(kind) * std::sqrt(1.0 + before / run_times_.Leading(kind)) : 0.0;
  return left < before + run + spare ? Overloaded(before, run) : OkStatus();
}

Status RequestQueue::CheckPlace(const QueuedRequest& request, RunKind kind, MonotonicTime now) const {
  if (draining_ || stopping_) return DrainingRefusal();
  if (requests_.size() >= options_.max_requests) {
    return QueueFull(options_.max_requests);
  }
  if (options_.max_per_client > 0 && requests_.waiting_of(request.requester.principal) >= options_.max_per_client) {
    return ClientQueueFull(request.requester.principal, options_.max_per_client);
  }
  return CheckTime(request, kind, now);
}

Status RequestQueue::Check(const QueuedRequest& request) const {
  const RunKind kind = RunKindOf(request);
  Status refused;
  {
    MutexLock lock(&mutex_);
    refused = CheckPlace(request, kind, options_.clock->Now());
  }
  if (!refused.ok()) stats_.RequestDropped(DropReason(refused));
  return refused;
}

Status RequestQueue::Take(QueuedRequest request) {
  FairQueue::Entry entry;
  entry.kind = RunKindOf(request);
  VICINAL_RETURN_IF_ERROR(CheckPlace(request, entry.kind, request.arrival));
  entry.predicted = run_times_.Share(entry.kind);
  entry.leading = run_times_.Leading(entry.kind);
  if (entry.leading == 0.0) entry.leading = entry.predicted;
  entry.joining = run_times_.Joining(entry.kind);
  entry.request = std::move(request);
  if (requests_.size() == 0) {
    waiting_since_ = entry.request.arrival;
    start_by_ = MonotonicTime::max();
  }
  start_by_ = std::min(start_by_, StartBy(entry));
  if (WakesSide(entry)) small_work_came_.NotifyOne();
  requests_.Push(std::move(entry));
  UpdateWanted();
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

void RequestQueue::UpdateWanted() {
  wanted_.store(requests_.size() > 0 || draining_ || stopping_, std::memory_order_relaxed);
}

// --- what is next ---

void RequestQueue::EndTurn(std::optional<Running>* running) {
  if (!*running) return;
  const double seconds = SecondsBetween((*running)->since, options_.clock->Now());
  const std::vector<Rider>& riders = (*running)->riders;
  if (!riders.empty()) {
    const Parts parts = PartsOf(**running, seconds);
    requests_.Settle(riders[0].ticket, parts.first, seconds);
    for (size_t i = 1; i < riders.size(); ++i) {
      requests_.Settle(riders[i].ticket, parts.by_weight * riders[i].weight, seconds);
    }
  }
  if (running == &main_ && !riders.empty()) busy_seconds_ += seconds;
  running->reset();
  if (!main_ && !side_ && empty()) became_idle_.NotifyAll();
}

RequestQueue::Parts RequestQueue::PartsOf(const Running& running, double seconds) {
  const double first = running.riders[0].weight;
  double others = 0.0;
  for (size_t i = 1; i < running.riders.size(); ++i) others += running.riders[i].weight;
  if (others == 0.0) return {seconds, 0.0};
  if (running.alone == 0.0) return {seconds * first / (first + others), seconds / (first + others)};
  const double added = std::max(0.0, std::min(seconds, running.measured.value_or(seconds)) - running.alone);
  return {seconds - added, added / others};
}

void RequestQueue::Measured(double seconds, bool finished) {
  MutexLock lock(&mutex_);
  if (!main_ || main_->riders.empty()) return;
  const std::vector<Rider>& riders = main_->riders;
  const MonotonicTime now = options_.clock->Now();
  if (riders.size() == 1) {
    if (finished) {
      run_times_.RecordAlone(riders[0].kind, seconds, now);
    } else {
      run_times_.RecordAtLeast(riders[0].kind, seconds, now);
    }
    return;
  }
  if (!finished) return;
  main_->measured = seconds;
  RecordShares(*main_, seconds, &run_times_);
  const Parts parts = PartsOf(*main_, seconds);
  for (size_t i = 1; i < riders.size(); ++i) {
    run_times_.RecordJoining(riders[i].kind, parts.by_weight * riders[i].weight);
  }
}

void RequestQueue::MeasuredSmall(double seconds) {
  MutexLock lock(&mutex_);
  if (side_) RecordShares(*side_, seconds, &run_times_);
}

void RequestQueue::RecordShares(const Running& running, double seconds, RunTimes* times) {
  double weights = 0.0;
  for (const Rider& rider : running.riders) weights += rider.weight;
  for (const Rider& rider : running.riders) times->RecordShare(rider.kind, seconds * rider.weight / weights);
}

Status RequestQueue::CheckTurn(const FairQueue::Entry& entry, MonotonicTime now) const {
  VICINAL_RETURN_IF_ERROR(entry.request.limits.Check(*options_.clock));
  const double left = SecondsLeft(entry.request, now), run = run_times_.Alone(entry.kind, now);
  // It was accepted because a run would fit: the wait was longer than expected. Where nothing else waits, it is tried.
  // Otherwise those behind it gain the time of its run, while a run that ends too late is lost to all.
  const double spare = requests_.size() > 0 ? run_times_.Late(entry.kind) : 0.0;
  return left < run + spare ? Overloaded(std::max(0.0, run - left), run) : OkStatus();
}

void RequestQueue::AddCompany(const FairQueue::Ticket& ticket, double predicted,
                              const std::function<bool(const FairQueue::Entry& entry)>& accept, Turn* turn,
                              Running* running) {
  const QueuedRequest& first = std::get<QueuedRequest>(turn->work);
  if (!MayShareRun(first, first)) return;
  const MonotonicTime now = running->since;
  // The run may grow until the earliest deadline of those that share it.
  double total = predicted, limit = SecondsLeft(first, now);
  size_t together = 1;
  int64_t nodes = OwnNodes(first);
  std::vector<FairQueue::Served> company =
      requests_.TakeCompany(ticket, [&](const FairQueue::Entry& entry) VICINAL_REQUIRES(mutex_) {
        const double left = SecondsLeft(entry.request, now);
        if (together >= kMaxTogether || nodes + OwnNodes(entry.request) > kMaxOwnNodes ||
            !MayShareRun(first, entry.request) || !accept(entry) || total + entry.predicted > std::min(limit, left) ||
            !CheckTurn(entry, now).ok()) {
          return false;
        }
        ++together;
        nodes += OwnNodes(entry.request);
        total += entry.predicted;
        limit = std::min(limit, left);
        return true;
      });
  for (FairQueue::Served& served : company) {
    running->riders.push_back({std::move(served.ticket), served.entry.kind, WeightOf(served.entry.request)});
    turn->company.push_back(std::move(served.entry.request));
  }
  running->predicted = std::max(running->predicted, total);
}

RequestQueue::Turn RequestQueue::Begin(FairQueue::Served served,
                                       const std::function<bool(const FairQueue::Entry& entry)>& accept,
                                       std::optional<Running>* running) {
  const MonotonicTime now = options_.clock->Now();
  const FairQueue::Entry& entry = served.entry;
  *running = Running();
  (*running)->pair = served.ticket.pair;
  (*running)->predicted = std::max(run_times_.Share(entry.kind), run_times_.Alone(entry.kind, now));
  // The side consumer's runs take longer: they have one thread.
  if (running == &main_) (*running)->alone = run_times_.Leading(entry.kind);
  (*running)->since = now;
  (*running)->riders.push_back({served.ticket, entry.kind, WeightOf(entry.request)});
  Turn turn;
  turn.admitted = CheckTurn(entry, now);
  const double predicted = entry.predicted;
  turn.work = std::move(served.entry.request);
  if (turn.admitted.ok() && requests_.size() > 0) AddCompany(served.ticket, predicted, accept, &turn, &**running);
  UpdateWanted();
  return turn;
}

std::deque<BackgroundWork>::iterator RequestQueue::NextBackground() {
  if (requests_.size() == 0) return background_.begin();
  if (background_.empty()) return background_.end();
  const MonotonicTime now = options_.clock->Now();
  return std::find_if(background_.begin(), background_.end(),
                      [now](const BackgroundWork& work) { return work.due && *work.due <= now; });
}

MonotonicTime RequestQueue::StartBy(const FairQueue::Entry& entry) const {
  const std::optional<MonotonicTime> deadline = entry.request.limits.deadline;
  if (!deadline) return MonotonicTime::max();
  const Nanoseconds allowed = *deadline - entry.request.arrival;
  if (entry.leading == 0.0) return *deadline - allowed / 2;
  // Its part counts with those of all that wait. Estimates count whatever their age: a faded one would end the wait
  // late.
  const double more = std::max(0.0, entry.leading - entry.predicted);
  // On a busy machine the wait ends late and the run takes longer, and the answer has its way to the client.
  return *deadline - allowed / 4 - NanosecondsOf(more + run_times_.Late(entry.kind));
}

void RequestQueue::WaitForCompany() {
  if (options_.max_batch_delay <= Nanoseconds::zero()) return;
  while (requests_.size() > 0 && requests_.size() < static_cast<int64_t>(kMaxTogether) && !draining_ && !stopping_) {
    // A run takes as long as all that share it add to it.
    const MonotonicTime end =
        std::min(waiting_since_ + options_.max_batch_delay, start_by_ - NanosecondsOf(requests_.seconds()));
    // The delay is in the injected clock's time, the wait in the machine's.
    const Nanoseconds left = end - options_.clock->Now();
    if (left <= Nanoseconds::zero()) return;
    work_came_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + left);
  }
}

void RequestQueue::Report(const Turn& turn, int64_t depth) const {
  stats_.QueueDepth(depth);
  if (!turn.admitted.ok()) stats_.RequestDropped(DropReason(turn.admitted));
}

std::optional<RequestQueue::Turn> RequestQueue::Next() {
  std::optional<Turn> turn;
  int64_t depth = 0;
  {
    MutexLock lock(&mutex_);
    EndTurn(&main_);
    while (!turn) {
      while (empty() && !stopping_) work_came_.Wait(&mutex_);
      WaitForCompany();
      // The side consumer may have taken the last one meanwhile.
      if (empty() && stopping_) return std::nullopt;
      if (empty()) continue;
      if (const auto background = NextBackground(); background != background_.end()) {
        main_ = Running();
        main_->since = options_.clock->Now();
        main_->gives_way = !background->due || *background->due > main_->since;
        if (background->of) main_->pair = {background->of->graph, background->of->model};
        turn.emplace(Turn{std::move(*background), draining_ || stopping_ ? DrainingRefusal() : OkStatus(), {}});
        background_.erase(background);
        if (has_side_) small_work_came_.NotifyOne();
        return turn;
      }
      turn.emplace(Begin(
          requests_.Pop(), [](const FairQueue::Entry&) { return true; }, &main_));
      if (has_side_ && requests_.size() > 0 && LongFrom() == main_->since) small_work_came_.NotifyOne();
    }
    depth = requests_.size();
  }
  Report(*turn, depth);
  return turn;
}

// --- beside long work ---

std::optional<MonotonicTime> RequestQueue::LongFrom() const {
  if (!main_ || main_->gives_way) return std::nullopt;
  const bool known_short = main_->predicted > 0.0 && NanosecondsOf(main_->predicted) < options_.long_run;
  return known_short ? main_->since + options_.long_run : main_->since;
}

bool RequestQueue::MayRunAside(const QueuedRequest& request, RunKind kind) const {
  if (request.requester.priority != Priority::kInteractive || request.nodes.all || request.key.private_id != 0 ||
      request.brings_features) {
    return false;
  }
  if (request.links != nullptr && request.links->num_pairs() > kSmallPairs) return false;
  if (request.nodes.ids.size() > kSmallNodes || request.key.options.receptive_field == ReceptiveField::kNever) {
    return false;
  }
  if (run_times_.Share(kind) > kSmallSeconds) return false;
  return !main_ || !main_->pair || *main_->pair != FairQueue::Pair{request.key.graph, request.key.model};
}

bool RequestQueue::WakesSide(const FairQueue::Entry& entry) const {
  if (!has_side_) return false;
  const std::optional<MonotonicTime> from = LongFrom();
  if (!from || !MayRunAside(entry.request, entry.kind)) return false;
  return !side_looks_soon_ || *from <= entry.request.arrival;
}

std::optional<RequestQueue::Turn> RequestQueue::NextSmall() {
  std::optional<Turn> turn;
  int64_t depth = 0;
  {
    MutexLock lock(&mutex_);
    has_side_ = true;
    EndTurn(&side_);
    const auto accept = [this](const FairQueue::Entry& entry)
                            VICINAL_REQUIRES(mutex_) { return MayRunAside(entry.request, entry.kind); };
    while (!turn) {
      if (stopping_) return std::nullopt;
      const std::optional<MonotonicTime> from = LongFrom();
      if (!from || !requests_.HasInteractive(accept)) {
        small_work_came_.Wait(&mutex_);
        continue;
      }
      const Nanoseconds left = *from - options_.clock->Now();
      if (left > Nanoseconds::zero()) {
        side_looks_soon_ = true;
        small_work_came_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + left);
        side_looks_soon_ = false;
        continue;
      }
      turn.emplace(Begin(*requests_.PopInteractive(accept), accept, &side_));
    }
    depth = requests_.size();
  }
  Report(*turn, depth);
  return turn;
}

// --- the end ---

bool RequestQueue::Drain(MonotonicTime deadline) {
  MutexLock lock(&mutex_);
  draining_ = true;
  ending_.store(true, std::memory_order_relaxed);
  UpdateWanted();
  work_came_.NotifyAll();
  while (main_ || side_ || !empty()) {
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
    UpdateWanted();
  }
  work_came_.NotifyAll();
  small_work_came_.NotifyAll();
}

int64_t RequestQueue::depth() const {
  MutexLock lock(&mutex_);
  return requests_.size();
}

double RequestQueue::busy_seconds() const {
  MutexLock lock(&mutex_);
  const bool busy = main_ && !main_->riders.empty();
  return busy_seconds_ + (busy ? SecondsBetween(main_->since, options_.clock->Now()) : 0.0);
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

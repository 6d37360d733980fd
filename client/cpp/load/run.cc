// SPDX-License-Identifier: Apache-2.0
// Workers share one loop, so that steps begin and end for all at once; a lock around it costs little beside a call.
// Times are steady, in nanoseconds since the start.
#include "client/cpp/load/run.h"

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/load/call.h"
#include "client/cpp/load/call_stream.h"

namespace vicinal::client::load {
namespace {

using Clock = std::chrono::steady_clock;

// What the workers share.
class Shared {
 public:
  Shared(const LoadOptions& options, const Mix& mix)
      : options_(options),
        mix_(mix),
        closed_(options.schedule),
        open_(options.schedule, options.poisson, options.seed) {}

  const LoadOptions& options() const { return options_; }
  const Mix& mix() const { return mix_; }
  Clock::time_point start() const { return start_; }
  void SetStart(Clock::time_point start) { start_ = start; }
  int64_t Now() const { return (Clock::now() - start_).count(); }

  ClosedLoop::Next Ask(int user, int64_t now) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return closed_.Ask(user, static_cast<double>(now) * 1e-9);
  }
  std::optional<OpenLoop::Arrival> NextArrival() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return open_.Next();
  }
  // The step at `now`, or below 0 before the first one and after the last.
  int StepAt(int64_t now) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int step = steps().At(static_cast<double>(now) * 1e-9);
    return step < static_cast<int>(options_.schedule.steps.size()) ? step : kWarmup;
  }

  // Waits until a further call may be in flight.
  void Enter() {
    std::unique_lock<std::mutex> lock(in_flight_mutex_);
    below_limit_.wait(lock, [&] { return in_flight_ < options_.max_in_flight; });
    ++in_flight_;
  }
  void Leave() {
    {
      const std::lock_guard<std::mutex> lock(in_flight_mutex_);
      --in_flight_;
    }
    below_limit_.notify_one();
  }

  // REQUIRES that all workers have ended.
  std::vector<double> StepSeconds(const Record& record) const {
    std::vector<double> seconds;
    const auto count = static_cast<int>(options_.schedule.steps.size());
    for (int step = 0; step < count; ++step) {
      double end = steps().EndOf(step);
      if (step + 1 == count && steps().ended_early(step) && step < static_cast<int>(record.steps().size())) {
        end = std::max(end, static_cast<double>(record.steps()[static_cast<size_t>(step)].last_end) * 1e-9);
      }
      seconds.push_back(end - steps().StartOf(step));
    }
    return seconds;
  }

 private:
  const Steps& steps() const { return options_.open_loop ? open_.steps() : closed_.steps(); }

  const LoadOptions& options_;
  const Mix& mix_;
  Clock::time_point start_;
  std::mutex mutex_;  // guards the loops
  ClosedLoop closed_;
  OpenLoop open_;
  std::mutex in_flight_mutex_;
  std::condition_variable below_limit_;
  int64_t in_flight_ = 0;
};

// A completion queue with its calls. `index` of options.threads.
class Worker {
 public:
  Worker(Shared& shared, int index, std::vector<std::unique_ptr<Connection>>& connections)
      : shared_(shared),
        index_(index),
        random_(shared.options().seed * 1'000'003 + static_cast<uint64_t>(index) + 1),
        connections_(connections),
        streams_(connections.size()) {}

  void Run() {
    if (shared_.options().open_loop) {
      std::thread pacer([this] { Pace(); });
      TakeEvents();
      pacer.join();
    } else {
      for (int user = index_; user < users(); user += shared_.options().threads) waiting_.push_back({0, user});
      StartWaiting();
      TakeEvents();
    }
    for (const auto& stream : streams_) {
      if (stream != nullptr) stream->Cancel();
    }
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) continue;
  }

  // REQUIRES that Run has returned.
  Record TakeRecord() {
    record_.Merge(unsent_);
    return std::move(record_);
  }

 private:
  struct Waiting {
    double until;
    int user;
  };

  int users() const { return ClosedLoop(shared_.options().schedule).users(); }

  // Open loop, on a thread of its own: each arrival at its time, by whichever worker took it.
  void Pace() {
    prctl(PR_SET_TIMERSLACK, 1);  // of this thread: wake up on time, not up to 50 us later
    while (const std::optional<OpenLoop::Arrival> arrival = shared_.NextArrival()) {
      const auto intended = static_cast<int64_t>(arrival->seconds * 1e9);
      std::this_thread::sleep_until(shared_.start() + std::chrono::nanoseconds(intended));
      shared_.Enter();
      if (!Start(0, arrival->step, intended)) shared_.Leave();
    }
    paced_ = true;
  }

  // False: the deadline, which begins at the intended time, has passed, and nothing was sent.
  bool Start(int user, int step, int64_t intended) {
    DrawnCall drawn = shared_.mix().Draw(random_);
    CallOutcome outcome;
    outcome.method = drawn.method;
    outcome.step = step;
    outcome.intended = intended;
    outcome.sent = shared_.Now();
    outcome.deadline = intended + static_cast<int64_t>(drawn.deadline_seconds * 1e9);
    const int64_t left = outcome.deadline - outcome.sent;
    if (left <= 0) {
      outcome.ended = outcome.sent;
      outcome.Fail(absl::StatusCode::kDeadlineExceeded, "NOT_SENT",
                   "the deadline passed before the call could be sent: more --threads, or a higher --max_in_flight?");
      unsent_.Add(outcome);
      return false;
    }
    ++in_flight_;
    const size_t connection = (static_cast<size_t>(index_) + turn_++ * shared_.options().threads) % connections_.size();
    // gRPC takes milliseconds; rounded up.
    const std::chrono::milliseconds timeout((left + 999'999) / 1'000'000);
    auto call = std::make_unique<Call>(std::move(drawn), user, outcome);
    if (shared_.options().streams) {
      SendOnStream(std::move(call), connection, timeout);
    } else {
      call.release()->Start(*connections_[connection], timeout, &queue_);
    }
    return true;
  }

  void SendOnStream(std::unique_ptr<Call> call, size_t connection, std::chrono::milliseconds timeout) {
    std::unique_ptr<CallStream>& stream = streams_[connection];
    if (stream != nullptr && stream->Send(&call, timeout)) return;
    // The one before has ended; its last events may still come.
    if (stream != nullptr) ended_streams_.push_back(std::move(stream));
    stream = std::make_unique<CallStream>(*connections_[connection], &queue_);
    stream->Send(&call, timeout);
  }

  // Closed loop: what a user without a call does now; parked users wait for a later time.
  void StartNext(int user) {
    const int64_t now = shared_.Now();
    const ClosedLoop::Next next = shared_.Ask(user, now);
    if (next.kind == ClosedLoop::Next::kStart) Start(user, next.step, now);
    if (next.kind == ClosedLoop::Next::kPark) waiting_.push_back({next.until, user});
  }

  void StartWaiting() {
    const double now = static_cast<double>(shared_.Now()) * 1e-9;
    std::vector<Waiting> due;
    std::vector<Waiting> later;
    for (const Waiting& waiting : waiting_) (waiting.until <= now ? due : later).push_back(waiting);
    waiting_ = std::move(later);
    for (const Waiting& waiting : due) StartNext(waiting.user);
  }

  bool Finished() const {
    // First whether further calls may come, then whether one is left.
    if (shared_.options().open_loop ? !paced_ : !waiting_.empty()) return false;
    return in_flight_ == 0;
  }

  void TakeEvents() {
    // An open loop looks now and then whether the pacer has finished.
    constexpr auto kLook = std::chrono::milliseconds(20);
    while (!Finished()) {
      void* tag = nullptr;
      bool ok = false;
      auto wake = std::chrono::system_clock::now() + kLook;
      if (!waiting_.empty()) wake = std::min(wake, WakeTime());
      const auto event = queue_.AsyncNext(&tag, &ok, wake);
      if (event == grpc::CompletionQueue::GOT_EVENT) TakeEvent(static_cast<Event*>(tag), ok);
      if (!waiting_.empty()) StartWaiting();
    }
  }

  std::chrono::system_clock::time_point WakeTime() const {
    double first = waiting_.front().until;
    for (const Waiting& waiting : waiting_) first = std::min(first, waiting.until);
    const auto left = static_cast<int64_t>(first * 1e9) - shared_.Now();
    return std::chrono::system_clock::now() + std::chrono::microseconds(std::max<int64_t>(0, left / 1000));
  }

  void TakeEvent(Event* event, bool ok) {
    EndedCalls ended;
    event->Proceed(ok, &ended);
    for (const std::unique_ptr<Call>& call : ended) Ended(call);
  }

  void Ended(const std::unique_ptr<Call>& call) {
    const int64_t now = shared_.Now();
    CallOutcome& outcome = call->outcome();
    outcome.ended = now;
    if (outcome.error.empty() && now > outcome.deadline) {
      outcome.Fail(absl::StatusCode::kDeadlineExceeded, "LATE", "the call succeeded after its deadline");
    }
    record_.Add(outcome);
    if (outcome.error.empty()) record_.AddEnd(shared_.StepAt(now));
    --in_flight_;
    if (shared_.options().open_loop) {
      shared_.Leave();
    } else {
      StartNext(call->user());
    }
  }

  Shared& shared_;
  const int index_;
  std::mt19937_64 random_;  // of the thread that starts calls
  size_t turn_ = 0;         // likewise
  std::vector<std::unique_ptr<Connection>>& connections_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<CallStream>> streams_;        // by connection; of the thread that starts calls
  std::vector<std::unique_ptr<CallStream>> ended_streams_;  // likewise
  std::vector<Waiting> waiting_;
  std::atomic<int64_t> in_flight_{0};
  std::atomic<bool> paced_{false};
  Record record_;  // of the thread that takes events
  Record unsent_;  // of the thread that starts calls
};

absl::Status Connect(std::vector<std::unique_ptr<Connection>>& connections, const ClientOptions& server) {
  const auto deadline = std::chrono::system_clock::now() + server.call_timeout;
  for (const auto& connection : connections) connection->channel.grpc()->GetState(/*try_to_connect=*/true);
  for (const auto& connection : connections) {
    if (connection->channel.grpc()->WaitForConnected(deadline)) continue;
    return CallError(absl::StatusCode::kUnavailable,
                     absl::StrCat("no connection to ", server.target, " within ", server.call_timeout.count(), " ms"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadResult> RunLoad(const ClientOptions& server, const LoadOptions& options, const Mix& mix) {
  ClientOptions own = server;
  own.own_connection = true;
  own.service_config.clear();  // a retry would hide an error, and add its wait to the latency
  std::vector<std::unique_ptr<Connection>> connections;
  connections.reserve(static_cast<size_t>(options.connections));
  for (int i = 0; i < options.connections; ++i) connections.push_back(std::make_unique<Connection>(own));
  const absl::Status connected = Connect(connections, own);
  if (!connected.ok()) return connected;

  Shared shared(options, mix);
  std::vector<std::unique_ptr<Worker>> workers;
  workers.reserve(static_cast<size_t>(options.threads));
  for (int i = 0; i < options.threads; ++i) workers.push_back(std::make_unique<Worker>(shared, i, connections));
  shared.SetStart(Clock::now());
  std::vector<std::thread> threads;
  threads.reserve(workers.size());
  for (const auto& worker : workers) threads.emplace_back([&worker] { worker->Run(); });
  for (std::thread& thread : threads) thread.join();
  LoadResult result;
  for (const auto& worker : workers) result.record.Merge(worker->TakeRecord());
  result.step_seconds = shared.StepSeconds(result.record);
  return result;
}

}  // namespace vicinal::client::load

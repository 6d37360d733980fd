// SPDX-License-Identifier: Apache-2.0
// The queue without an executor: the test is the consumer, on its own thread, and time moves when told.
#include "engine/execute/request_queue.h"

#include <absl/hash/hash_testing.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/execute/executor.h"
#include "engine/execute/queue_refusals.h"
#include "tests/engine/execute/numbered_requests.h"

namespace vicinal {
namespace {

using std::chrono::seconds;
using testing::Numbered;
using testing::NumberOf;

class RequestQueueTest : public ::testing::Test {
 protected:
  // The next request's number, and what the queue says about it.
  std::pair<int64_t, Status> NextRequest() {
    const auto turn = queue_.Next();
    if (!turn || !std::holds_alternative<QueuedRequest>(turn->work)) return {0, Internal("no request")};
    return {NumberOf(std::get<QueuedRequest>(turn->work).key), turn->admitted};
  }
  // OK when background work is next and may run.
  Status NextBackground() {
    const auto turn = queue_.Next();
    if (!turn || !std::holds_alternative<BackgroundWork>(turn->work)) return Internal("no background work");
    return turn->admitted;
  }
  WorkLimits Until(Nanoseconds time) const {
    WorkLimits limits;
    limits.deadline = clock_.Now() + time;
    return limits;
  }

  FakeClock clock_;
  RequestQueue queue_{{4, &clock_, nullptr}};
};

TEST_F(RequestQueueTest, WhatWaitsCanBeRead) {
  QueuedRequest request = Numbered(1, Until(seconds(5)));
  request.key.options.precision = Storage::kBfloat16;
  request.answer = {10, 4};
  const RequestKey key = request.key;
  const MonotonicTime begin = clock_.Now();
  ASSERT_TRUE(queue_.Push(std::move(request)).ok());
  clock_.Advance(seconds(2));
  const auto cancel = std::make_shared<CancelToken>();
  ASSERT_TRUE(queue_.Push(Numbered(2, {std::nullopt, cancel})).ok());
  queue_.PushBackground({"tuning", [](const Status&, DeviceContext&, const Lease&) {}});
  cancel->Cancel();

  const QueueSnapshot snapshot = queue_.Snapshot();
  ASSERT_EQ(snapshot.requests.size(), 2u);
  EXPECT_EQ(snapshot.requests[0].key, key);
  EXPECT_EQ(snapshot.requests[0].answer.rows, 10);
  EXPECT_EQ(snapshot.requests[0].answer.width, 4);
  EXPECT_EQ(snapshot.requests[0].arrival, begin);
  EXPECT_EQ(snapshot.requests[0].deadline, begin + seconds(5));
  EXPECT_FALSE(snapshot.requests[0].cancelled);
  EXPECT_EQ(NumberOf(snapshot.requests[1].key), 2);
  EXPECT_EQ(snapshot.requests[1].arrival, begin + seconds(2));
  EXPECT_EQ(snapshot.requests[1].deadline, std::nullopt);
  EXPECT_TRUE(snapshot.requests[1].cancelled);
  EXPECT_THAT(snapshot.background, ::testing::ElementsAre("tuning"));
  EXPECT_EQ(queue_.depth(), 2);
}

TEST_F(RequestQueueTest, RequestsLeaveInOrder) {
  for (const int64_t number : {3, 1, 2}) ASSERT_TRUE(queue_.Push(Numbered(number)).ok());
  for (const int64_t number : {3, 1, 2}) {
    const auto [next, admitted] = NextRequest();
    EXPECT_EQ(next, number);
    EXPECT_TRUE(admitted.ok()) << admitted;
  }
  EXPECT_EQ(queue_.depth(), 0);
}

TEST_F(RequestQueueTest, AFullQueueTakesNoMoreUntilOneLeaves) {
  for (int64_t number = 1; number <= 4; ++number) ASSERT_TRUE(queue_.Push(Numbered(number)).ok());
  const Status full = queue_.Push(Numbered(5));
  EXPECT_EQ(full.code(), StatusCode::kUnavailable);
  EXPECT_EQ(DetailOf(full)->reason, "QUEUE_FULL");
  EXPECT_EQ(NextRequest().first, 1);
  EXPECT_TRUE(queue_.Push(Numbered(5)).ok());
}

TEST_F(RequestQueueTest, ACancelledRequestKeepsItsPlaceAndSaysSo) {
  const auto cancel = std::make_shared<CancelToken>();
  ASSERT_TRUE(queue_.Push(Numbered(1, {std::nullopt, cancel})).ok());
  ASSERT_TRUE(queue_.Push(Numbered(2)).ok());
  cancel->Cancel();
  const auto [number, admitted] = NextRequest();
  EXPECT_EQ(number, 1);
  EXPECT_EQ(admitted.code(), StatusCode::kCancelled);
  EXPECT_TRUE(NextRequest().second.ok());
}

TEST_F(RequestQueueTest, ADeadlineThatPassesWhileARequestWaits) {
  ASSERT_TRUE(queue_.Push(Numbered(1, Until(seconds(1)))).ok());
  ASSERT_TRUE(queue_.Push(Numbered(2, Until(seconds(10)))).ok());
  clock_.Advance(seconds(2));
  EXPECT_EQ(NextRequest().second.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(NextRequest().second.ok());
}

TEST_F(RequestQueueTest, BackgroundWorkComesWhenNoRequestWaits) {
  queue_.PushBackground({"tuning", [](const Status&, DeviceContext&, const Lease&) {}});
  EXPECT_FALSE(queue_.ShouldStop());
  ASSERT_TRUE(queue_.Push(Numbered(1)).ok());
  EXPECT_TRUE(queue_.ShouldStop()) << "a request waits";
  EXPECT_EQ(NextRequest().first, 1);
  EXPECT_FALSE(queue_.ShouldStop()) << "it waits no more";
  EXPECT_TRUE(NextBackground().ok());
  ASSERT_TRUE(queue_.Push(Numbered(2)).ok());
  EXPECT_TRUE(queue_.ShouldStop()) << "of the lease under way";
}

TEST_F(RequestQueueTest, BackgroundWorkThatIsDueComesBeforeRequests) {
  const auto nothing = [](const Status&, DeviceContext&, const Lease&) {};
  queue_.PushBackground({"tuning", nothing});
  queue_.PushBackground({"keeping answers", nothing, clock_.Now() + seconds(2)});
  for (const int64_t number : {1, 2}) ASSERT_TRUE(queue_.Push(Numbered(number)).ok());
  EXPECT_EQ(NextRequest().first, 1) << "not due yet";
  clock_.Advance(seconds(2));
  EXPECT_TRUE(NextBackground().ok());
  EXPECT_THAT(queue_.Snapshot().background, ::testing::ElementsAre("tuning")) << "it has no time that it is due";
  EXPECT_FALSE(queue_.Ending());
  EXPECT_EQ(NextRequest().first, 2);
}

TEST_F(RequestQueueTest, OnlyRequestsCountAsBusy) {
  ASSERT_TRUE(queue_.Push(Numbered(1)).ok());
  queue_.PushBackground({"tuning", [](const Status&, DeviceContext&, const Lease&) {}});
  EXPECT_EQ(NextRequest().first, 1);
  clock_.Advance(seconds(3));
  EXPECT_EQ(queue_.busy_seconds(), 3.0) << "it runs";
  EXPECT_TRUE(NextBackground().ok());
  clock_.Advance(seconds(5));
  EXPECT_EQ(queue_.busy_seconds(), 3.0);
}

TEST_F(RequestQueueTest, DrainingKeepsWhatWaits) {
  ASSERT_TRUE(queue_.Push(Numbered(1)).ok());
  queue_.PushBackground({"tuning", [](const Status&, DeviceContext&, const Lease&) {}});
  EXPECT_FALSE(queue_.Drain(clock_.Now())) << "the deadline is now";
  EXPECT_TRUE(queue_.ShouldStop());
  EXPECT_TRUE(queue_.Ending());
  const Status refused = queue_.Push(Numbered(2));
  EXPECT_EQ(DetailOf(refused)->reason, "DRAINING");
  EXPECT_TRUE(NextRequest().second.ok()) << "it was queued before";
  EXPECT_EQ(DetailOf(NextBackground())->reason, "DRAINING");
  EXPECT_FALSE(queue_.Drain(clock_.Now())) << "the last turn is under way";
}

TEST_F(RequestQueueTest, AStoppedQueueEndsWhenItIsEmpty) {
  ASSERT_TRUE(queue_.Push(Numbered(1)).ok());
  queue_.PushBackground({"tuning", [](const Status&, DeviceContext&, const Lease&) {}});
  queue_.Stop();
  EXPECT_EQ(queue_.Push(Numbered(2)).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(NextRequest().second.ok());
  EXPECT_EQ(NextBackground().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(queue_.Next().has_value());
  EXPECT_TRUE(queue_.Drain(clock_.Now()));
}

// --- time ---

class QueueTimeTest : public RequestQueueTest {
 protected:
  // A request of one kind, whose deadline is in `time`.
  QueuedRequest Within(Nanoseconds time) const { return Numbered(1, Until(time)); }
  // Runs the next request: it takes `time`.
  void Run(std::chrono::milliseconds time) {
    const auto turn = queue_.Next();
    ASSERT_TRUE(turn->admitted.ok()) << turn->admitted;
    clock_.Advance(time);
    queue_.Measured(std::chrono::duration<double>(time).count(), true);
  }
  void Learn(std::chrono::milliseconds time) {
    ASSERT_TRUE(queue_.Push(Numbered(1)).ok());
    Run(time);
  }
  static std::string ReasonOf(const Status& status) {
    const std::optional<ErrorDetail> detail = DetailOf(status);
    return detail ? detail->reason : "none";
  }
};

using std::chrono::milliseconds;

TEST_F(QueueTimeTest, WhatWasNeverMeasuredIsTried) {
  EXPECT_TRUE(queue_.Push(Within(milliseconds(1))).ok());
  EXPECT_TRUE(NextRequest().second.ok());
}

TEST_F(QueueTimeTest, ADeadlineBelowTheTimeOfARunIsRefused) {
  Learn(milliseconds(100));
  const Status refused = queue_.Push(Within(milliseconds(80)));
  EXPECT_EQ(refused.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(refused), "DEADLINE_TOO_SHORT");
  EXPECT_TRUE(queue_.Push(Within(milliseconds(120))).ok());
}

class DropCount final : public StatsSink {
 public:
  void StageSeconds(std::string_view, double) override {}
  void PhaseSeconds(std::string_view, double) override {}
  void QueueDepth(int64_t) override {}
  void RequestDropped(std::string_view reason) override { ++counts[std::string(reason)]; }

  std::map<std::string, int> counts;
};

TEST_F(QueueTimeTest, CheckGivesTheErrorOfPushAndTakesNothing) {
  DropCount drops;
  RequestQueue queue({2, &clock_, &drops});
  ASSERT_TRUE(queue.Push(Numbered(1)).ok());
  ASSERT_TRUE(queue.Next().has_value());
  clock_.Advance(milliseconds(100));
  queue.Measured(0.1, true);
  EXPECT_EQ(ReasonOf(queue.Check(Within(milliseconds(80)))), "DEADLINE_TOO_SHORT");
  EXPECT_EQ(queue.Check(Within(milliseconds(-1))).code(), StatusCode::kDeadlineExceeded);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.Check(Within(milliseconds(120))).ok());
  EXPECT_EQ(queue.depth(), 0);
  ASSERT_TRUE(queue.Push(Within(milliseconds(110))).ok());
  EXPECT_EQ(ReasonOf(queue.Check(Within(milliseconds(120)))), "SERVER_OVERLOADED");
  EXPECT_TRUE(queue.Check(Numbered(2)).ok()) << "no deadline";
  ASSERT_TRUE(queue.Push(Numbered(2)).ok());
  EXPECT_EQ(ReasonOf(queue.Check(Numbered(3))), "QUEUE_FULL");
  queue.Stop();
  EXPECT_EQ(ReasonOf(queue.Check(Numbered(3))), "DRAINING");
  EXPECT_EQ(drops.counts,
            (std::map<std::string, int>{
                {"deadline_too_short", 1}, {"expired", 1}, {"overloaded", 1}, {"queue_full", 1}, {"draining", 1}}));
}

// The figures are different wherever the times are, and no more is said to be left than there is.
TEST(QueueRefusalsTest, TimesHaveADecimalAndWhatIsLeftIsNotRoundedUp) {
  const auto said = [](double left, double run) { return std::string(DeadlineTooShort(left, run).message()); };
  EXPECT_THAT(said(0.005, 0.0051), ::testing::HasSubstr("is in 5.0 ms, but this request takes 5.1 ms;"));
  EXPECT_THAT(said(0.00509, 0.00511), ::testing::HasSubstr("is in 5.0 ms, but this request takes 5.2 ms;"));
  EXPECT_THAT(said(0.005, 0.005 + 1e-12), ::testing::HasSubstr("is in 5.0 ms, but this request takes 5.1 ms;"));
  EXPECT_THAT(said(0.08, 0.1), ::testing::HasSubstr("is in 80.0 ms, but this request takes 100.0 ms;"));
  EXPECT_THAT(said(-1.0, 0.00001), ::testing::HasSubstr("is in 0.0 ms, but this request takes 0.1 ms;"));
  EXPECT_THAT(said(0.0009, 12.3456), ::testing::HasSubstr("is in 0.9 ms, but this request takes 12345.6 ms;"));
  EXPECT_THAT(std::string(Overloaded(0.0123, 0.00071).message()),
              ::testing::HasSubstr("about 12.3 ms of work come before this request, which takes 0.8 ms;"));
}

// A client whose deadline passes ends its call: that is no cancellation, however soon the queue hears of it.
TEST_F(QueueTimeTest, WhatEndsWhileItWaitsCountsByItsCause) {
  DropCount drops;
  RequestQueue queue({4, &clock_, &drops});
  const auto push = [&](std::optional<MonotonicTime> deadline) {
    auto token = std::make_shared<CancelToken>();
    EXPECT_TRUE(queue.Push(Numbered(1, {deadline, token})).ok());
    return token;
  };
  const MonotonicTime deadline = clock_.Now() + milliseconds(50);
  push(std::nullopt)->Cancel();
  push(deadline)->Expire();
  const auto both = push(deadline + milliseconds(1));
  both->Expire();
  both->Cancel();  // by a stream that ends for it
  push(deadline + milliseconds(2));
  clock_.Advance(milliseconds(49));
  const auto next = [&] { return queue.Next()->admitted.code(); };
  EXPECT_EQ(next(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(next(), StatusCode::kDeadlineExceeded);
  clock_.Advance(milliseconds(10));
  EXPECT_EQ(next(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(next(), StatusCode::kCancelled);
  EXPECT_EQ(drops.counts, (std::map<std::string, int>{{"expired", 3}, {"cancelled", 1}}));
}

TEST_F(QueueTimeTest, ADeadlineBelowWaitAndRunIsRefusedWithTheWait) {
  Learn(milliseconds(100));
  ASSERT_TRUE(queue_.Push(Numbered(1, Until(seconds(1)))).ok());
  ASSERT_TRUE(queue_.Next().has_value());
  clock_.Advance(milliseconds(40));  // 60 of 100 are left
  ASSERT_TRUE(queue_.Push(Numbered(1, Until(milliseconds(200)))).ok());
  const Status refused = queue_.Push(Within(milliseconds(240)));
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), "SERVER_OVERLOADED");
  EXPECT_NEAR(static_cast<double>(DetailOf(refused)->retry_after->count()), 160.0, 2.0);
  EXPECT_TRUE(queue_.Push(Within(milliseconds(280))).ok());
  EXPECT_TRUE(queue_.Push(Numbered(1)).ok()) << "no deadline";
}

TEST_F(QueueTimeTest, AWaitLongerThanExpectedDropsTheRequestBeforeItRuns) {
  Learn(milliseconds(100));
  ASSERT_TRUE(queue_.Push(Within(milliseconds(150))).ok());
  clock_.Advance(milliseconds(70));
  const auto turn = queue_.Next();
  EXPECT_EQ(turn->admitted.code(), StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(turn->admitted), "SERVER_OVERLOADED");
}

// Runs of 80 and 120 ms in turn: the estimate is near 100, and 40 more must be left where others wait.
TEST_F(QueueTimeTest, RunsThatVaryNeedTimeToSpareWhereOthersWait) {
  for (int i = 0; i < 30; ++i) Learn(milliseconds(i % 2 == 0 ? 80 : 120));
  ASSERT_TRUE(queue_.Push(Within(milliseconds(115))).ok()) << "nothing else is there to do";
  EXPECT_TRUE(NextRequest().second.ok());
  ASSERT_TRUE(queue_.Push(Within(milliseconds(300))).ok());
  EXPECT_EQ(ReasonOf(queue_.Push(Numbered(1, Until(milliseconds(315))))), "SERVER_OVERLOADED")
      << "215 are left at its turn";
  ASSERT_TRUE(queue_.Push(Within(milliseconds(400))).ok());
  clock_.Advance(milliseconds(185));
  EXPECT_EQ(ReasonOf(NextRequest().second), "SERVER_OVERLOADED") << "115 are left, and another one waits";
  EXPECT_TRUE(NextRequest().second.ok());
}

// A kind that had not run for 20 minutes was refused behind work of seconds, whatever its deadline.
TEST_F(QueueTimeTest, AnOldEstimateDoesNotAskForMoreTimeToSpare) {
  for (int i = 0; i < 30; ++i) Learn(milliseconds(i % 2 == 0 ? 80 : 120));
  clock_.Advance(std::chrono::minutes(20));
  ASSERT_TRUE(queue_.Push(Numbered(2)).ok());
  Run(seconds(5));
  ASSERT_TRUE(queue_.Push(Numbered(2)).ok());
  EXPECT_EQ(ReasonOf(queue_.Push(Within(seconds(4)))), "SERVER_OVERLOADED") << "work of 5 s comes before";
  const Status taken = queue_.Push(Within(seconds(6)));
  EXPECT_TRUE(taken.ok()) << taken;
}

TEST_F(QueueTimeTest, ARefusalIsNotForEver) {
  Learn(seconds(10));
  EXPECT_FALSE(queue_.Push(Within(seconds(1))).ok());
  clock_.Advance(seconds(30));
  EXPECT_TRUE(queue_.Push(Within(seconds(1))).ok()) << "the estimate is old";
}

TEST_F(QueueTimeTest, ARunThatItsDeadlineEndedTeachesHowLongItTakes) {
  ASSERT_TRUE(queue_.Push(Within(milliseconds(50))).ok());
  ASSERT_TRUE(queue_.Next().has_value());
  clock_.Advance(milliseconds(50));
  queue_.Measured(0.05, false);
  EXPECT_EQ(ReasonOf(queue_.Push(Within(milliseconds(40)))), "DEADLINE_TOO_SHORT");
}

TEST_F(QueueTimeTest, OthersRequestsDoNotCountUntilTheirShare) {
  Learn(milliseconds(100));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue_.Push(Numbered(1)).ok());
  QueuedRequest other = Within(milliseconds(150));
  other.requester.principal = "other";
  EXPECT_TRUE(queue_.Push(std::move(other)).ok());
}

TEST(QueueShareTest, OnePrincipalCannotFillTheQueue) {
  FakeClock clock;
  RequestQueue queue({4, &clock, nullptr, 2});
  const auto push = [&queue](const std::string& principal) {
    QueuedRequest request = Numbered(1);
    request.requester.principal = principal;
    return queue.Push(std::move(request));
  };
  EXPECT_TRUE(push("a").ok());
  EXPECT_TRUE(push("a").ok());
  const Status full = push("a");
  EXPECT_EQ(full.code(), StatusCode::kUnavailable);
  EXPECT_EQ(DetailOf(full)->reason, "CLIENT_QUEUE_FULL");
  EXPECT_TRUE(DetailOf(full)->retry_after.has_value());
  EXPECT_TRUE(push("b").ok());
  EXPECT_TRUE(push("b").ok());
  EXPECT_EQ(DetailOf(push("c"))->reason, "QUEUE_FULL");
}

TEST(RequestKey, SharesWhatIsTheSameAndNothingElse) {
  const RequestKey key = {{"g", 1}, {"m", 1}};
  std::vector<RequestKey> keys(9, key);
  keys[1].graph.version = 2;
  keys[2].model.name = "n";
  keys[3].options.precision = Storage::kFloat16;
  keys[4].options.product_precision = ProductPrecision::kTf32;
  keys[5].options.receptive_field = ReceptiveField::kNever;
  keys[6].options.output = "conv1";
  keys[7].options.kernels = {{"aggregate", "reference"}};
  keys[8].private_id = NewPrivateId();
  for (size_t i = 1; i < keys.size(); ++i) EXPECT_FALSE(keys[i] == keys[0]) << i;
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(keys));
  EXPECT_NE(NewPrivateId(), NewPrivateId());
}

// Every callback of a request that was taken is called exactly once, whatever happens to the request: run, cancelled,
// expired, and with the executor destroyed while threads still submit.
TEST(ExecutorShutdown, EveryCallbackIsCalledOnce) {
  constexpr int kThreads = 3, kPerThread = 200;
  const std::unique_ptr<Device> device = MakeCpuDevice(1);
  FakeClock clock;
  testing::ScriptedRunner runner;
  std::vector<std::atomic<int>> calls(kThreads * kPerThread);
  std::vector<std::atomic<bool>> taken(kThreads * kPerThread);
  auto executor = std::make_unique<Executor>(*device, &runner, Executor::Options{64, &clock, nullptr});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPerThread; ++i) {
        const int number = t * kPerThread + i;
        WorkLimits limits;
        const auto cancel = std::make_shared<CancelToken>();
        if (i % 3 == 1) limits.cancel = cancel;
        if (i % 3 == 2) limits.deadline = clock.Now() - std::chrono::seconds(1);
        const Status submitted =
            executor->Submit(Numbered(number, limits, [&calls, number](const StatusOr<InferenceResult>&) {
              calls[static_cast<size_t>(number)].fetch_add(1);
            }));
        taken[static_cast<size_t>(number)] = submitted.ok();
        cancel->Cancel();
        if (i == kPerThread / 2 && t == 0) executor->Drain(clock.Now());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  executor.reset();
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i], taken[i] ? 1 : 0) << i;
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// The executor with requests that wait for the test and a clock that moves when told.
#include "engine/execute/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/execute/numbered_requests.h"

namespace vicinal {
namespace {

using testing::Numbered;

class ExecutorTest : public ::testing::Test {
 protected:
  // Submits a request that blocks until the returned promise is set; returns once it runs.
  std::shared_ptr<std::promise<void>> Block() {
    auto release = std::make_shared<std::promise<void>>();
    std::promise<void> started;
    runner_.Add(kBlocker, [&started, release] {
      started.set_value();
      release->get_future().wait();
    });
    EXPECT_TRUE(executor_->Submit(Numbered(kBlocker)).ok());
    started.get_future().wait();
    return release;
  }
  // Submits a request whose outcome arrives in the returned future.
  std::future<Status> Queue(WorkLimits limits, int64_t number = 7) {
    auto outcome = std::make_shared<std::promise<Status>>();
    EXPECT_TRUE(executor_
                    ->Submit(Numbered(
                        number, std::move(limits),
                        [outcome](const StatusOr<InferenceResult>& result) { outcome->set_value(result.status()); }))
                    .ok());
    return outcome->get_future();
  }
  // A request that must not be taken, and whose callback must not be called.
  Status Refused() {
    return executor_->Submit(Numbered(8, {}, [](const StatusOr<InferenceResult>&) { FAIL() << "was refused"; }));
  }
  void Background(std::function<void(const Status&, const Lease&)> run) {
    executor_->SubmitBackground({"test", [run = std::move(run)](const Status& admitted, DeviceContext&,
                                                                const Lease& lease) { run(admitted, lease); }});
  }

  static constexpr int64_t kBlocker = 99;
  FakeClock clock_;
  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  testing::ScriptedRunner runner_;
  std::unique_ptr<Executor> executor_ =
      std::make_unique<Executor>(*device_, &runner_, Executor::Options{2, &clock_, nullptr});
};

TEST_F(ExecutorTest, RunsInOrderOnOneThread) {
  std::vector<int> order;
  runner_.Add(1, [&] { order.push_back(1); });
  runner_.Add(2, [&] { order.push_back(2); });
  auto release = Block();
  auto first = Queue({}, 1), second = Queue({}, 2);
  EXPECT_EQ(executor_->queue_depth(), 2);
  release->set_value();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
  EXPECT_THAT(order, ::testing::ElementsAre(1, 2));
}

TEST_F(ExecutorTest, TheRunnersAnswerReachesTheCallback) {
  const StatusOr<InferenceResult> answer = executor_->SubmitAndWait(Numbered(5));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->rows, 5);
}

TEST_F(ExecutorTest, ARunWithoutMemoryFailsAlone) {
  runner_.Add(1, [] { throw std::bad_alloc(); });
  EXPECT_EQ(executor_->SubmitAndWait(Numbered(1)).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(executor_->SubmitAndWait(Numbered(1)).ok());
}

TEST_F(ExecutorTest, ALongRunCountsWhileItRuns) {
  EXPECT_EQ(executor_->busy_seconds(), 0.0);
  auto release = Block();
  clock_.Advance(std::chrono::seconds(3));
  EXPECT_EQ(executor_->busy_seconds(), 3.0);
  clock_.Advance(std::chrono::seconds(2));
  EXPECT_EQ(executor_->busy_seconds(), 5.0);
  release->set_value();
  ASSERT_TRUE(executor_->Drain(clock_.Now() + std::chrono::hours(1)));
  clock_.Advance(std::chrono::seconds(10));
  EXPECT_EQ(executor_->busy_seconds(), 5.0) << "idle since";
}

TEST_F(ExecutorTest, AFullQueueRefuses) {
  auto release = Block();
  auto first = Queue({}), second = Queue({});
  const Status full = Refused();
  EXPECT_EQ(full.code(), StatusCode::kUnavailable);
  EXPECT_EQ(DetailOf(full)->reason, "QUEUE_FULL");
  EXPECT_TRUE(DetailOf(full)->retry_after.has_value());
  release->set_value();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
}

TEST_F(ExecutorTest, ExpiredAndCancelledWorkDoesNotRun) {
  auto release = Block();
  auto cancel = std::make_shared<CancelToken>();
  WorkLimits expires;
  expires.deadline = clock_.Now() + std::chrono::seconds(1);
  auto expired = Queue(expires);
  auto cancelled = Queue({std::nullopt, cancel});
  clock_.Advance(std::chrono::seconds(2));
  cancel->Cancel();
  release->set_value();
  EXPECT_EQ(expired.get().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(cancelled.get().code(), StatusCode::kCancelled);
}

// Who has the answer may delete the model, and count on its memory.
TEST_F(ExecutorTest, WhatARequestHeldIsFreeBeforeItIsAnswered) {
  std::vector<bool> free;
  const auto cancel = std::make_shared<CancelToken>();
  const auto release = Block();
  for (const WorkLimits& limits : {WorkLimits{}, WorkLimits{std::nullopt, cancel}}) {
    auto model = std::make_shared<const Model>();
    QueuedRequest request = Numbered(
        1, limits, [&free, held = std::weak_ptr<const Model>(model)](const auto&) { free.push_back(held.expired()); });
    request.model = std::move(model);
    ASSERT_TRUE(executor_->Submit(std::move(request)).ok());
  }
  cancel->Cancel();
  release->set_value();
  executor_.reset();
  EXPECT_THAT(free, ::testing::ElementsAre(true, true)) << "of one that ran, and of one that was cancelled";
}

TEST_F(ExecutorTest, ADeadlineAheadRuns) {
  WorkLimits limits;
  limits.deadline = clock_.Now() + std::chrono::seconds(1);
  EXPECT_TRUE(Queue(limits).get().ok());
}

TEST_F(ExecutorTest, DrainFinishesWhatIsQueuedAndRefusesWhatComes) {
  auto release = Block();
  auto queued = Queue({});
  EXPECT_FALSE(executor_->Drain(clock_.Now())) << "the deadline is now, and work is under way";
  const Status refused = Refused();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_EQ(DetailOf(refused)->reason, "DRAINING");
  release->set_value();
  EXPECT_TRUE(executor_->Drain(clock_.Now() + std::chrono::hours(1)));
  EXPECT_TRUE(queued.get().ok());
}

TEST_F(ExecutorTest, DestructionFinishesWhatIsQueued) {
  auto release = Block();
  auto queued = Queue({});
  release->set_value();
  executor_.reset();
  EXPECT_TRUE(queued.get().ok());
}

// --- background work ---

TEST_F(ExecutorTest, BackgroundWorkRunsWhenNoRequestWaits) {
  std::vector<int> order;
  runner_.Add(1, [&] { order.push_back(1); });
  runner_.Add(2, [&] { order.push_back(2); });
  auto release = Block();
  std::promise<void> done;
  Background([&](const Status& admitted, const Lease& lease) {
    EXPECT_TRUE(admitted.ok());
    EXPECT_FALSE(lease.ShouldStop());
    order.push_back(9), done.set_value();
  });
  auto first = Queue({}, 1), second = Queue({}, 2);
  EXPECT_EQ(executor_->queue_depth(), 2) << "background work is no request";
  release->set_value();
  done.get_future().wait();
  EXPECT_THAT(order, ::testing::ElementsAre(1, 2, 9));
}

TEST_F(ExecutorTest, ALeaseHearsOfARequestThatComes) {
  std::promise<void> leased, looked;
  std::promise<void> ended;
  bool before = true, after = false;
  Background([&](const Status&, const Lease& lease) {
    before = lease.ShouldStop();
    leased.set_value();
    looked.get_future().wait();
    after = lease.ShouldStop();
  });
  leased.get_future().wait();
  auto request = Queue({});
  looked.set_value();
  EXPECT_TRUE(request.get().ok());
  EXPECT_FALSE(before);
  EXPECT_TRUE(after);
  // The next lease begins anew.
  Background([&](const Status&, const Lease& lease) {
    after = lease.ShouldStop();
    ended.set_value();
  });
  ended.get_future().wait();
  EXPECT_FALSE(after);
}

TEST_F(ExecutorTest, DrainRefusesBackgroundWorkButCallsIt) {
  auto release = Block();
  std::promise<Status> first, second;
  Background([&](const Status& admitted, const Lease&) { first.set_value(admitted); });
  EXPECT_FALSE(executor_->Drain(clock_.Now()));
  release->set_value();
  EXPECT_TRUE(executor_->Drain(clock_.Now() + std::chrono::hours(1)));
  EXPECT_EQ(first.get_future().get().code(), StatusCode::kUnavailable);
  Background([&](const Status& admitted, const Lease&) { second.set_value(admitted); });
  const Status late = second.get_future().get();
  EXPECT_EQ(DetailOf(late)->reason, "DRAINING");
}

TEST_F(ExecutorTest, ALeaseUnderWayHearsOfTheDrainWhichWaitsForIt) {
  std::promise<void> leased;
  Background([&](const Status&, const Lease& lease) {
    leased.set_value();
    while (!lease.ShouldStop()) std::this_thread::yield();
  });
  leased.get_future().wait();
  EXPECT_TRUE(executor_->Drain(clock_.Now() + std::chrono::hours(1)));
}

TEST_F(ExecutorTest, DestructionCallsBackgroundWorkThatWaits) {
  auto release = Block();
  auto told = std::make_shared<std::promise<Status>>();
  Background([told](const Status& admitted, const Lease&) { told->set_value(admitted); });
  auto result = told->get_future();
  std::thread destroyer([&] { executor_.reset(); });
  release->set_value();
  destroyer.join();
  // Before or after it heard that it stops: but once, and not lost.
  const Status status = result.get();
  EXPECT_TRUE(status.ok() || status.code() == StatusCode::kUnavailable);
}

}  // namespace
}  // namespace vicinal

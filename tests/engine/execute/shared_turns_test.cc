// SPDX-License-Identifier: Apache-2.0
// Which requests the queue hands out together, and which ones to its side consumer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/execute/request_queue.h"
#include "tests/engine/execute/numbered_requests.h"

namespace vicinal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Numbered;
using testing::NumberOf;

// --- company ---

class CompanyTest : public ::testing::Test {
 protected:
  WorkLimits Until(Nanoseconds time) const {
    WorkLimits limits;
    limits.deadline = clock_.Now() + time;
    return limits;
  }
  Status NextAdmitted() { return queue_.Next()->admitted; }
  Status Push(const std::string& principal, int64_t number, std::string mark, WorkLimits limits = {},
              Priority priority = Priority::kInteractive) {
    QueuedRequest request = Numbered(number, std::move(limits));
    request.requester = {principal, priority};
    request.feature_set = std::move(mark);
    return queue_.Push(std::move(request));
  }
  // The marks of the requests that run next, the first one first.
  std::vector<std::string> NextMarks() {
    const auto turn = queue_.Next();
    std::vector<std::string> marks = {std::get<QueuedRequest>(turn->work).feature_set};
    for (const QueuedRequest& request : turn->company) marks.push_back(request.feature_set);
    return marks;
  }

  FakeClock clock_;
  RequestQueue queue_{{4, &clock_, nullptr}};
};

TEST_F(CompanyTest, WhatWaitsForTheSameComesTogether) {
  ASSERT_TRUE(Push("a", 1, "1").ok());
  ASSERT_TRUE(Push("a", 2, "2").ok());
  ASSERT_TRUE(Push("b", 1, "3").ok());
  ASSERT_TRUE(Push("a", 1, "4").ok());
  EXPECT_THAT(NextMarks(), ::testing::ElementsAre("1", "4", "3")) << "of all principals";
  EXPECT_EQ(queue_.depth(), 1);
  EXPECT_THAT(NextMarks(), ::testing::ElementsAre("2"));
}

TEST_F(CompanyTest, OtherOptionsFeaturesAndPrioritiesStayApart) {
  ASSERT_TRUE(Push("a", 1, "1").ok());
  ASSERT_TRUE(Push("a", 1, "batch", {}, Priority::kBatch).ok());
  QueuedRequest other = Numbered(1);
  other.requester.principal = "a";
  other.key.options.output = "conv1";
  ASSERT_TRUE(queue_.Push(std::move(other)).ok());
  QueuedRequest own = Numbered(1);
  own.requester.principal = "a";
  own.brings_features = true;
  ASSERT_TRUE(queue_.Push(std::move(own)).ok());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(NextMarks().size(), 1u);
}

TEST_F(CompanyTest, WhoHasGivenUpOrIsTooLateDoesNotComeAlong) {
  const auto cancel = std::make_shared<CancelToken>();
  ASSERT_TRUE(Push("a", 1, "1").ok());
  ASSERT_TRUE(Push("b", 1, "cancelled", {std::nullopt, cancel}).ok());
  ASSERT_TRUE(Push("b", 1, "expired", Until(seconds(1))).ok());
  cancel->Cancel();
  clock_.Advance(seconds(2));
  EXPECT_THAT(NextMarks(), ::testing::ElementsAre("1"));
  EXPECT_EQ(NextAdmitted().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(NextAdmitted().code(), StatusCode::kCancelled);
}

TEST_F(CompanyTest, ARunGrowsNoFurtherThanTheEarliestDeadline) {
  ASSERT_TRUE(Push("a", 1, "0").ok());
  ASSERT_EQ(NextMarks().size(), 1u);
  clock_.Advance(milliseconds(100));
  queue_.Measured(0.1, true);
  ASSERT_TRUE(Push("b", 1, "1", Until(milliseconds(450))).ok());
  ASSERT_TRUE(Push("c", 1, "2", Until(milliseconds(250))).ok());
  ASSERT_TRUE(Push("d", 1, "3", Until(seconds(9))).ok());
  EXPECT_THAT(NextMarks(), ::testing::ElementsAre("1", "2")) << "a third of 100 ms would not end within 250";
  EXPECT_THAT(NextMarks(), ::testing::ElementsAre("3"));
}

TEST_F(CompanyTest, EachPaysItsPart) {
  ASSERT_TRUE(Push("a", 1, "1").ok());
  ASSERT_TRUE(Push("b", 1, "2").ok());
  ASSERT_EQ(NextMarks().size(), 2u);
  clock_.Advance(seconds(2));
  queue_.Measured(2.0, true);
  // Behind by a second each, as someone else who ran for as long alone.
  ASSERT_TRUE(Push("c", 2, "c").ok());
  ASSERT_TRUE(Push("a", 3, "a").ok());
  ASSERT_TRUE(Push("b", 4, "b").ok());
  EXPECT_THAT(NextMarks(), ::testing::ElementsAre("c"));
}

// The queue lets requests wait for a second.
class BatchDelayTest : public ::testing::Test {
 protected:
  Status Push(int64_t number, std::optional<Nanoseconds> until = std::nullopt) {
    WorkLimits limits;
    if (until) limits.deadline = clock_.Now() + *until;
    return queue_.Push(Numbered(number, std::move(limits)));
  }
  // A run alone takes 100 ms.
  void Learn() {
    ASSERT_TRUE(Push(1).ok());
    clock_.Advance(seconds(1));
    ASSERT_TRUE(queue_.Next().has_value());
    clock_.Advance(milliseconds(100));
    queue_.Measured(0.1, true);
  }
  // Takes what waits; more comes while it waits, and at last the time is over. Returns how many run together.
  size_t TakeWhileMoreComes() {
    std::thread later([this] {
      EXPECT_TRUE(Push(1).ok());
      clock_.Advance(seconds(1));
      EXPECT_TRUE(Push(1).ok());
    });
    const auto turn = queue_.Next();
    later.join();
    EXPECT_TRUE(turn->admitted.ok()) << turn->admitted;
    return 1 + turn->company.size();
  }

  FakeClock clock_;
  RequestQueue queue_{{16, &clock_, nullptr, 0, seconds(1)}};
};

TEST_F(BatchDelayTest, RequestsWaitForCompany) {
  ASSERT_TRUE(Push(1).ok());
  EXPECT_GE(TakeWhileMoreComes(), 2u);
}

TEST_F(BatchDelayTest, ALaterDeadlineChangesNothing) {
  ASSERT_NO_FATAL_FAILURE(Learn());
  ASSERT_TRUE(Push(1, seconds(9)).ok());
  EXPECT_GE(TakeWhileMoreComes(), 2u);
}

// Two share the run, and take 200 ms as far as the queue knows; 125 ms are to spare.
TEST_F(BatchDelayTest, TheWaitEndsInTimeForTheEarliestDeadline) {
  ASSERT_NO_FATAL_FAILURE(Learn());
  ASSERT_TRUE(Push(1, seconds(9)).ok());
  ASSERT_TRUE(Push(1, milliseconds(500)).ok());
  clock_.Advance(milliseconds(175));
  const auto turn = queue_.Next();
  EXPECT_TRUE(turn->admitted.ok()) << turn->admitted;
  EXPECT_EQ(turn->company.size(), 1u);
}

TEST_F(BatchDelayTest, ADeadlineThatAllowsOneRunOnlyDoesNotWait) {
  ASSERT_NO_FATAL_FAILURE(Learn());
  ASSERT_TRUE(Push(1, milliseconds(105)).ok());
  EXPECT_TRUE(queue_.Next()->admitted.ok());
}

TEST_F(BatchDelayTest, WhatWasNeverMeasuredWaitsForHalfOfItsTime) {
  ASSERT_TRUE(Push(1, milliseconds(400)).ok());
  clock_.Advance(milliseconds(200));
  EXPECT_TRUE(queue_.Next()->admitted.ok());
}

// --- the side consumer ---

class SideTest : public ::testing::Test {
 protected:
  ~SideTest() override {
    queue_.Stop();
    if (side_.joinable()) side_.join();
  }
  // A small interactive request for model `number`.
  static QueuedRequest Small(int64_t number) {
    QueuedRequest request = Numbered(number);
    request.nodes.ids = {1, 2, 3};
    request.answer = {3, 1};
    return request;
  }
  void StartSide() {
    side_ = std::thread([this] {
      while (const auto turn = queue_.NextSmall()) {
        MutexLock lock(&mutex_);
        taken_.push_back(NumberOf(std::get<QueuedRequest>(turn->work).key));
        came_.NotifyAll();
      }
    });
  }
  // What the side consumer takes first.
  int64_t AwaitSide() {
    MutexLock lock(&mutex_);
    while (taken_.empty()) came_.Wait(&mutex_);
    return taken_.front();
  }
  size_t taken() {
    MutexLock lock(&mutex_);
    return taken_.size();
  }

  // A pass over all nodes with the model of 1 has the executor.
  void StartLongRun() {
    QueuedRequest pass = Numbered(1);
    pass.nodes.all = true;
    ASSERT_TRUE(queue_.Push(std::move(pass)).ok());
    ASSERT_TRUE(queue_.Next().has_value());
  }

  FakeClock clock_;
  RequestQueue queue_{{16, &clock_, nullptr}};
  Mutex mutex_;
  CondVar came_;
  std::vector<int64_t> taken_ VICINAL_GUARDED_BY(mutex_);
  std::thread side_;
};

TEST_F(SideTest, ASmallRequestForAnotherModelRunsBesideALongRun) {
  StartSide();
  ASSERT_NO_FATAL_FAILURE(StartLongRun());
  ASSERT_TRUE(queue_.Push(Small(2)).ok());
  EXPECT_EQ(AwaitSide(), 2);
}

TEST_F(SideTest, WhatIsNotSmallInteractiveAndElsewhereWaits) {
  ASSERT_NO_FATAL_FAILURE(StartLongRun());
  std::vector<QueuedRequest> others;
  others.push_back(Small(1));  // the plan that runs
  others.push_back(Small(2));
  others.back().requester.priority = Priority::kBatch;
  others.push_back(Small(3));
  others.back().nodes = {true, {}};
  others.push_back(Small(4));
  others.back().nodes.ids.resize(100'000);
  others.push_back(Small(5));
  others.back().brings_features = true;
  others.push_back(Small(6));
  others.back().key.options.receptive_field = ReceptiveField::kNever;
  const auto count = static_cast<int64_t>(others.size());
  for (QueuedRequest& request : others) ASSERT_TRUE(queue_.Push(std::move(request)).ok());
  StartSide();
  ASSERT_TRUE(queue_.Push(Small(7)).ok());
  EXPECT_EQ(AwaitSide(), 7);
  EXPECT_EQ(queue_.depth(), count);
}

TEST_F(SideTest, NothingLeavesWhileTheMainConsumerIsIdleOrGivesWay) {
  StartSide();
  ASSERT_TRUE(queue_.Push(Small(1)).ok());
  const auto first = queue_.Next();
  EXPECT_EQ(NumberOf(std::get<QueuedRequest>(first->work).key), 1);
  queue_.PushBackground({"tuning", [](const Status&, DeviceContext&, const Lease&) {}});
  const auto background = queue_.Next();
  ASSERT_TRUE(std::holds_alternative<BackgroundWork>(background->work));
  ASSERT_TRUE(queue_.Push(Small(2)).ok());
  EXPECT_TRUE(queue_.ShouldStop());
  const auto second = queue_.Next();
  EXPECT_EQ(NumberOf(std::get<QueuedRequest>(second->work).key), 2);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(SideTest, BackgroundWorkThatIsDueDoesNotHoldUpOthers) {
  StartSide();
  const RequestKey of = Numbered(1).key;
  queue_.PushBackground({"pass", [](const Status&, DeviceContext&, const Lease&) {}, clock_.Now(), of});
  ASSERT_TRUE(queue_.Next().has_value());
  ASSERT_TRUE(queue_.Push(Small(1)).ok());
  ASSERT_TRUE(queue_.Push(Small(2)).ok());
  EXPECT_EQ(AwaitSide(), 2) << "the pass runs the plan of 1";
  EXPECT_EQ(queue_.depth(), 1);
}

TEST_F(SideTest, ALongRunRefusesNothingThatRunsBesideIt) {
  const auto small_until = [this](int64_t number) {
    QueuedRequest request = Small(number);
    request.limits.deadline = clock_.Now() + milliseconds(50);
    return request;
  };
  ASSERT_NO_FATAL_FAILURE(StartLongRun());
  queue_.Measured(1.0, true);
  ASSERT_NO_FATAL_FAILURE(StartLongRun());
  EXPECT_EQ(queue_.Push(small_until(2)).code(), StatusCode::kUnavailable) << "nobody would run it within a second";
  StartSide();
  ASSERT_TRUE(queue_.Push(Small(3)).ok());
  EXPECT_EQ(AwaitSide(), 3);
  EXPECT_TRUE(queue_.Push(small_until(2)).ok());
  EXPECT_EQ(queue_.Push(small_until(1)).code(), StatusCode::kUnavailable) << "the plan that runs";
}

TEST_F(SideTest, ADrainWaitsForTheSideConsumer) {
  StartSide();
  ASSERT_NO_FATAL_FAILURE(StartLongRun());
  ASSERT_TRUE(queue_.Push(Small(2)).ok());
  EXPECT_EQ(AwaitSide(), 2);
  EXPECT_FALSE(queue_.Drain(clock_.Now()));
  queue_.Stop();
  EXPECT_FALSE(queue_.Next().has_value());
  EXPECT_TRUE(queue_.Drain(clock_.Now() + std::chrono::hours(1)));
}

}  // namespace
}  // namespace vicinal

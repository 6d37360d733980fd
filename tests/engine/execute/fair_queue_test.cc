// SPDX-License-Identifier: Apache-2.0
// Shares of the queue, served by a loop that needs as long for each request as the test says.
#include "engine/execute/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/engine/execute/numbered_requests.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using testing::Numbered;
using testing::NumberOf;

QueuedRequest Of(const std::string& principal, int64_t number, Priority priority = Priority::kInteractive) {
  QueuedRequest request = Numbered(number);
  request.requester = {principal, priority};
  return request;
}

QueuedRequest Until(int64_t deadline_seconds, std::string mark) {
  QueuedRequest request = Of("p", 1);
  request.feature_set = std::move(mark);
  request.limits.deadline = MonotonicTime(std::chrono::seconds(deadline_seconds));
  return request;
}

class FairQueueTest : public ::testing::Test {
 protected:
  // Serves the next request, whose run takes `seconds`; returns its principal.
  std::string Serve(double seconds) {
    const FairQueue::Served served = queue_.Pop();
    queue_.Settle(served.ticket, seconds, seconds);
    return served.ticket.requester.principal;
  }
  // Serves for `seconds`; a run of principal p takes cost[p]. Returns the time that each got.
  std::map<std::string, double> ServeFor(double seconds, std::map<std::string, double> cost) {
    std::map<std::string, double> got;
    for (double spent = 0.0; spent < seconds && queue_.size() > 0;) {
      const FairQueue::Served served = queue_.Pop();
      const std::string& principal = served.ticket.requester.principal;
      queue_.Settle(served.ticket, cost[principal], cost[principal]);
      got[principal] += cost[principal];
      spent += cost[principal];
    }
    return got;
  }

  FairQueue queue_;
};

TEST_F(FairQueueTest, PrincipalsGetEqualTimesWhateverTheirRunsCost) {
  for (int64_t i = 0; i < 2000; ++i) {
    queue_.Push({Of("many", 1)});
    if (i < 100) queue_.Push({Of("dear", 1)});
    if (i < 1000) queue_.Push({Of("cheap", 1)});
  }
  const auto got = ServeFor(30.0, {{"many", 0.01}, {"dear", 0.1}, {"cheap", 0.02}});
  for (const auto& [principal, seconds] : got) EXPECT_NEAR(seconds, 10.0, 0.11) << principal;
  EXPECT_EQ(got.size(), 3u);
}

TEST_F(FairQueueTest, PairsOfAPrincipalGetEqualTimes) {
  for (int64_t i = 0; i < 100; ++i) {
    for (const int64_t model : {1, 2}) queue_.Push({Of("p", model)});
  }
  std::map<int64_t, double> got;
  for (double spent = 0.0; spent < 6.0;) {
    const FairQueue::Served served = queue_.Pop();
    const double cost = served.ticket.pair.second.version == 1 ? 0.3 : 0.1;
    queue_.Settle(served.ticket, cost, cost);
    got[served.ticket.pair.second.version] += cost;
    spent += cost;
  }
  EXPECT_NEAR(got[1], got[2], 0.31);
}

TEST_F(FairQueueTest, OnePrincipalsThousandRequestsDelayAnothersByOne) {
  for (int64_t i = 0; i < 1000; ++i) queue_.Push({Of("greedy", 1), 0, 0.1});
  EXPECT_EQ(Serve(0.1), "greedy");
  EXPECT_EQ(Serve(0.1), "greedy");
  queue_.Push({Of("small", 2), 0, 0.001});
  EXPECT_EQ(Serve(0.001), "small");
  queue_.Push({Of("small", 2), 0, 0.001});
  EXPECT_EQ(Serve(0.001), "small") << "it has had a millisecond, the other 200";
}

TEST_F(FairQueueTest, WhoPausesSavesNothingUp) {
  for (int64_t i = 0; i < 100; ++i) queue_.Push({Of("a", 1)});
  ServeFor(10.0, {{"a", 0.2}});
  for (int64_t i = 0; i < 100; ++i) queue_.Push({Of("b", 1)});
  const auto got = ServeFor(4.0, {{"a", 0.2}, {"b", 0.2}});
  EXPECT_NEAR(got.at("a"), 2.0, 0.3);
}

TEST_F(FairQueueTest, ATicketOfALongRunIsADebt) {
  queue_.Push({Of("a", 1)});
  queue_.Push({Of("a", 1)});
  queue_.Push({Of("b", 1)});
  queue_.Push({Of("b", 1)});
  EXPECT_EQ(Serve(1.0), "a");
  EXPECT_EQ(Serve(0.1), "b");
  EXPECT_EQ(Serve(0.1), "b") << "0.1 of its second";
  queue_.Push({Of("b", 1)});
  EXPECT_EQ(Serve(0.1), "b");
  EXPECT_EQ(Serve(0.1), "a");
}

TEST_F(FairQueueTest, BatchRequestsGetWhatIsLeftAndASeventeenth) {
  for (int64_t i = 0; i < 2000; ++i) queue_.Push({Of("web", 1)});
  for (int64_t i = 0; i < 2000; ++i) queue_.Push({Of("night", 1, Priority::kBatch)});
  const auto got = ServeFor(17.0, {{"web", 0.01}, {"night", 0.01}});
  EXPECT_NEAR(got.at("web"), 16.0, 0.2);
  EXPECT_NEAR(got.at("night"), 1.0, 0.2);
  ServeFor(100.0, {{"web", 0.01}, {"night", 0.01}});
  EXPECT_EQ(queue_.size(), 0);
}

TEST_F(FairQueueTest, TheEarliestDeadlineOfAPairIsFirstThenTheOldest) {
  queue_.Push({Until(9, "late")});
  queue_.Push({Of("p", 1)});
  queue_.Push({Until(3, "soon")});
  queue_.Push({Until(3, "soon, too")});
  std::vector<std::string> order;
  while (queue_.size() > 0) {
    const FairQueue::Served served = queue_.Pop();
    queue_.Settle(served.ticket, 0.0, 0.0);
    order.push_back(served.entry.request.feature_set);
  }
  EXPECT_THAT(order, ElementsAre("soon", "soon, too", "late", ""));
}

TEST_F(FairQueueTest, TheWaitIsWhatComesBeforeInTheOwnShareAndTheSharesOfOthers) {
  EXPECT_EQ(queue_.SecondsBefore(Of("a", 1)), 0.0);
  for (int i = 0; i < 10; ++i) queue_.Push({Of("a", 1), 0, 0.5});
  EXPECT_NEAR(queue_.SecondsBefore(Of("a", 1)), 5.0, 1e-9);
  EXPECT_EQ(queue_.SecondsBefore(Of("b", 1)), 0.0) << "its turn comes next";
  for (int i = 0; i < 4; ++i) queue_.Push({Of("b", 1), 0, 0.5});
  EXPECT_NEAR(queue_.SecondsBefore(Of("b", 1)), 4.0, 1e-9) << "2 of its own, and as much of the other's";
  EXPECT_NEAR(queue_.SecondsBefore(Of("a", 1)), 7.0, 1e-9) << "no more than there is";
  queue_.Push({Until(3, ""), 0, 0.25});
  EXPECT_EQ(queue_.SecondsBefore(Until(2, "")), 0.0) << "an earlier deadline";
  EXPECT_GT(queue_.SecondsBefore(Until(4, "")), 0.0);
}

TEST_F(FairQueueTest, WhoHasHadMoreWaitsUntilTheOthersHaveHadAsMuch) {
  queue_.Push({Of("a", 1), 0, 0.5});
  for (int i = 0; i < 10; ++i) queue_.Push({Of("b", 1), 0, 0.5});
  EXPECT_EQ(Serve(2.0), "a");
  EXPECT_NEAR(queue_.SecondsBefore(Of("a", 2)), 2.0, 1e-9);
  EXPECT_EQ(queue_.SecondsBefore(Of("c", 1)), 0.0) << "it has had nothing";
  EXPECT_EQ(Serve(0.6), "b");
  EXPECT_NEAR(queue_.SecondsBefore(Of("a", 2)), 1.4, 1e-9);
  queue_.Push({Of("a", 2), 0, 0.5});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Serve(0.5), "b");
  EXPECT_EQ(Serve(0.5), "a") << "as expected";
}

// --- rides ---

class RideTest : public FairQueueTest {
 protected:
  // A request of model 1 that takes a second alone, and adds `joining` to a run of another one.
  static FairQueue::Entry Entry(const std::string& principal, double joining) {
    return {Of(principal, 1), 0, 1.0, 1.0, joining};
  }
  // Serves the next run with all that may ride on it: it takes `seconds`, of which each rider pays `ride`. Returns the
  // principals, the leading one first.
  std::vector<std::string> ServeTogether(double seconds, double ride) {
    FairQueue::Served first = queue_.Pop();
    std::vector<std::string> principals = {first.ticket.requester.principal};
    const auto company = queue_.TakeCompany(first.ticket, [](const FairQueue::Entry&) { return true; });
    queue_.Settle(first.ticket, seconds - ride * static_cast<double>(company.size()), seconds);
    for (const FairQueue::Served& served : company) {
      principals.push_back(served.ticket.requester.principal);
      queue_.Settle(served.ticket, ride, seconds);
    }
    return principals;
  }
};

TEST_F(RideTest, RidesCostAtMostHalfOfWhatTheLeadingPrincipalPays) {
  queue_.Push(Entry("a", 0.25));
  for (int i = 0; i < 9; ++i) queue_.Push(Entry("b", 0.25));
  queue_.Push(Entry("a", 0.25));
  EXPECT_THAT(ServeTogether(1.75, 0.25), ElementsAre("a", "a", "b", "b")) << "0.5 of 1.25";
  EXPECT_EQ(queue_.Pop().ticket.requester.principal, "b");
}

TEST_F(RideTest, TheOnlyRequestOfAPrincipalRidesUnlessItCostsMoreThanItsTurn) {
  queue_.Push(Entry("a", 0.9));
  queue_.Push(Entry("b", 0.9));
  queue_.Push(Entry("c", 1.5));
  EXPECT_THAT(ServeTogether(1.9, 0.9), ElementsAre("a", "b"));
  EXPECT_THAT(ServeTogether(1.0, 0.9), ElementsAre("c"));
}

TEST_F(RideTest, MorePairsThatWaitShareTheRides) {
  queue_.Push(Entry("a", 0.1));
  for (int i = 0; i < 9; ++i) queue_.Push(Entry("b", 0.1));
  for (const int64_t model : {2, 3, 4, 5}) queue_.Push({Of("b", model), 0, 1.0, 1.0});
  EXPECT_THAT(ServeTogether(1.2, 0.1), ElementsAre("a", "b", "b")) << "a fifth of a second";
}

TEST_F(RideTest, ARideThatCostMoreThanExpectedIsADebtOfOneRunAtMost) {
  queue_.Push(Entry("a", 0.0));
  for (int i = 0; i < 4; ++i) queue_.Push(Entry("b", 0.0));
  queue_.Push({Of("b", 2), 0, 1.0});
  EXPECT_EQ(ServeTogether(2.0, 0.5).size(), 5u);
  for (int i = 0; i < 4; ++i) queue_.Push(Entry("b", 0.0));
  queue_.Push(Entry("a", 0.0));
  EXPECT_EQ(ServeTogether(2.0, 0.5).size(), 5u);
  for (int i = 0; i < 9; ++i) queue_.Push({Of("a", 3), 0, 1.0});
  EXPECT_EQ(Serve(1.0), "a");
  EXPECT_EQ(Serve(1.0), "a");
  EXPECT_EQ(Serve(1.0), "b");
}

TEST_F(FairQueueTest, CountsByPrincipal) {
  queue_.Push({Of("a", 1)});
  queue_.Push({Of("a", 2, Priority::kBatch)});
  queue_.Push({Of("b", 1)});
  EXPECT_EQ(queue_.waiting_of("a"), 2);
  EXPECT_EQ(queue_.waiting_of("b"), 1);
  EXPECT_EQ(queue_.waiting_of("c"), 0);
  std::vector<int64_t> numbers;
  queue_.ForEach([&](const FairQueue::Entry& entry) { numbers.push_back(NumberOf(entry.request.key)); });
  EXPECT_THAT(numbers, ElementsAre(1, 2, 1));
}

TEST(RunTimesTest, FollowsWhatIsMeasuredAndFades) {
  const MonotonicTime begin{};
  RunTimes times;
  EXPECT_EQ(times.Alone(1, begin), 0.0);
  EXPECT_EQ(times.Share(1), 0.0);
  times.RecordAlone(1, 0.8, begin);
  EXPECT_DOUBLE_EQ(times.Alone(1, begin), 0.8);
  EXPECT_DOUBLE_EQ(times.Share(1), 0.8);
  for (int i = 0; i < 50; ++i) times.RecordShare(1, 0.01);
  EXPECT_NEAR(times.Share(1), 0.01, 1e-3);
  EXPECT_DOUBLE_EQ(times.Alone(1, begin), 0.8) << "shared runs say nothing about it";
  for (int i = 0; i < 50; ++i) times.RecordAlone(1, 0.1, begin);
  EXPECT_NEAR(times.Alone(1, begin), 0.1, 1e-3);
  EXPECT_NEAR(times.Alone(1, begin + std::chrono::seconds(5)), 0.05, 1e-3) << "half after five seconds";
  EXPECT_EQ(times.Alone(2, begin), 0.0);
}

TEST(RunTimesTest, RunsThatVaryMayBeLate) {
  const MonotonicTime begin{};
  RunTimes times;
  EXPECT_EQ(times.Late(1), 0.0);
  for (int i = 0; i < 50; ++i) times.RecordAlone(1, 0.1, begin);
  EXPECT_NEAR(times.Late(1), 0.0, 1e-6) << "they do not vary";
  for (int i = 0; i < 50; ++i) times.RecordAlone(1, i % 2 == 0 ? 0.08 : 0.12, begin);
  EXPECT_NEAR(times.Late(1), 0.04, 0.01);
  EXPECT_EQ(times.Late(2), 0.0);
}

TEST(RunTimesTest, ARunThatWasGivenUpIsALowerBound) {
  const MonotonicTime begin{};
  RunTimes times;
  times.RecordAtLeast(1, 0.5, begin);
  EXPECT_DOUBLE_EQ(times.Alone(1, begin), 0.5);
  times.RecordAtLeast(1, 0.1, begin);
  EXPECT_DOUBLE_EQ(times.Alone(1, begin), 0.5);
}

// A disturbed run must not refuse all others for seconds; a graph that has become slow must.
TEST(RunTimesTest, OneRunThatWasGivenUpAmongOthersIsOnlyARun) {
  const MonotonicTime begin{};
  RunTimes times;
  for (int i = 0; i < 50; ++i) times.RecordAlone(1, 0.1, begin);
  times.RecordAtLeast(1, 0.5, begin);
  EXPECT_NEAR(times.Alone(1, begin), 0.2, 1e-3);
  EXPECT_NEAR(times.Late(1), 0.2, 1e-3);
  times.RecordAtLeast(1, 0.5, begin);
  EXPECT_DOUBLE_EQ(times.Alone(1, begin), 0.5) << "the second in a row";
  for (int i = 0; i < 50; ++i) times.RecordAlone(1, 0.1, begin);
  times.RecordAtLeast(1, 0.05, begin);
  EXPECT_NEAR(times.Alone(1, begin), 0.1, 1e-3) << "it had less time than a run takes";
}

TEST(RunTimesTest, KindsDifferInModelOptionsAndMagnitude) {
  QueuedRequest request = Numbered(1);
  request.nodes.ids.resize(10);
  const RunKind kind = RunKindOf(request);
  request.nodes.ids.resize(12);
  EXPECT_EQ(RunKindOf(request), kind);
  request.nodes.ids.resize(100);
  EXPECT_NE(RunKindOf(request), kind);
  request.nodes = {true, {}};
  EXPECT_NE(RunKindOf(request), kind);
  request.nodes = {false, std::vector<int64_t>(10)};
  request.key.model.version = 2;
  EXPECT_NE(RunKindOf(request), kind);
  request.key.model.version = 1;
  request.key.options.receptive_field = ReceptiveField::kNever;
  EXPECT_NE(RunKindOf(request), kind);
}

}  // namespace
}  // namespace vicinal

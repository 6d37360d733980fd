// SPDX-License-Identifier: Apache-2.0
#include "server/open_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "engine/base/error.h"

namespace vicinal::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTimeout{5000};

std::string ReasonOf(const Status& status) {
  const auto detail = DetailOf(status);
  return detail ? detail->reason : "";
}

class OpenCallsTest : public ::testing::Test {
 protected:
  // Notes how a wait was ended.
  OpenCalls::Ticket Await() {
    return calls_.Await([this](const Status& why) { ended_.push_back(why); });
  }

  FakeClock clock_;
  JsonLog log_{-1, LogLevel::kError, &clock_};
  OpenCalls calls_{{3, kTimeout}, clock_, &log_};
  std::vector<Status> ended_;
};

TEST_F(OpenCallsTest, AtMostSoManyAreOpen) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(calls_.Enter().ok());
  const Status full = calls_.Enter();
  EXPECT_EQ(full.code(), StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(full), "TOO_MANY_CALLS");
  EXPECT_EQ(DetailOf(full)->retry_after, milliseconds(1000));
  EXPECT_EQ(calls_.open(), 3);
  calls_.Leave();
  EXPECT_TRUE(calls_.Enter().ok());
}

// Answered calls that gRPC has not released yet keep nobody out, unless there are very many.
TEST_F(OpenCallsTest, AnsweredCallsTakeNoPlaceUpToABound) {
  for (int64_t i = 0; i < OpenCalls::kReleasing + 2; ++i) {
    ASSERT_TRUE(calls_.Enter().ok()) << i;
    calls_.Answered();
  }
  EXPECT_EQ(calls_.open(), OpenCalls::kReleasing + 2);
  ASSERT_TRUE(calls_.Enter().ok()) << "two answered ones too many, and this one";
  EXPECT_EQ(ReasonOf(calls_.Enter()), "TOO_MANY_CALLS");
  calls_.Leave(/*answered=*/true);
  EXPECT_TRUE(calls_.Enter().ok());
  EXPECT_EQ(ReasonOf(calls_.Enter()), "TOO_MANY_CALLS");
  for (int64_t i = 0; i < OpenCalls::kReleasing + 1; ++i) calls_.Leave(/*answered=*/true);
  EXPECT_EQ(calls_.open(), 2);
  EXPECT_TRUE(calls_.Enter().ok());
  EXPECT_FALSE(calls_.Enter().ok()) << "nothing was lost";
}

// Who only sent headers a while ago makes room; who has just sent them may still be sending.
// Each principal for itself, and again once one of its streams has ended.
TEST_F(OpenCallsTest, APrincipalsStreamsTakeHalfOfThePlaces) {
  OpenCalls calls({6, kTimeout}, clock_, &log_);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(calls.EnterStream("web").ok());
  const Status full = calls.EnterStream("web");
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full), "CLIENT_STREAMS_FULL");
  EXPECT_NE(std::string(full.message()).find("'web' has 3 streams"), std::string::npos) << full.message();
  EXPECT_TRUE(calls.EnterStream("other").ok());
  calls.LeaveStream("web");
  EXPECT_TRUE(calls.EnterStream("web").ok());
  EXPECT_FALSE(calls.EnterStream("web").ok());
}

TEST_F(OpenCallsTest, OneStreamIsAlwaysAllowed) {
  OpenCalls calls({1, kTimeout}, clock_, &log_);
  EXPECT_TRUE(calls.EnterStream("web").ok());
  EXPECT_FALSE(calls.EnterStream("web").ok());
}

TEST_F(OpenCallsTest, TheLongestWaitMakesRoom) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(calls_.Enter().ok());
  const auto first = Await();
  clock_.Advance(OpenCalls::kPatience / 2);
  const auto second = Await();
  EXPECT_FALSE(calls_.Enter().ok());
  clock_.Advance(OpenCalls::kPatience / 2);
  EXPECT_TRUE(calls_.Enter().ok());
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0].code(), StatusCode::kUnavailable);
  EXPECT_FALSE(calls_.Arrived(first));
  calls_.Leave();
  EXPECT_TRUE(calls_.Arrived(second));
  clock_.Advance(OpenCalls::kPatience);
  EXPECT_FALSE(calls_.Enter().ok());  // nobody waits any more
  EXPECT_EQ(ended_.size(), 1u);
}

TEST_F(OpenCallsTest, MessagesMustArriveInTime) {
  const auto slow = Await();
  clock_.Advance(kTimeout / 2);
  const auto quick = Await();
  clock_.Advance(kTimeout / 2 - milliseconds(1));
  calls_.Sweep();
  EXPECT_TRUE(ended_.empty());
  clock_.Advance(milliseconds(1));
  calls_.Sweep();
  calls_.Sweep();
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0].code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(ended_[0]), "MESSAGE_TIMEOUT");
  EXPECT_TRUE(calls_.Arrived(quick));
  EXPECT_FALSE(calls_.Arrived(slow));
  clock_.Advance(kTimeout);
  calls_.Sweep();
  EXPECT_EQ(ended_.size(), 1u);
}

TEST_F(OpenCallsTest, EndsAllWaitsAndThoseToCome) {
  const auto early = Await();
  calls_.EndWaits(Unavailable("DRAINING", "", milliseconds(1)));
  EXPECT_EQ(ended_.size(), 1u);
  const auto late = Await();
  EXPECT_EQ(ended_.size(), 2u);
  EXPECT_EQ(ReasonOf(ended_[1]), "DRAINING");
  EXPECT_FALSE(calls_.Arrived(early));
  EXPECT_FALSE(calls_.Arrived(late));
}

// The thread sanitizer looks on. Each wait ends in exactly one way.
TEST_F(OpenCallsTest, ManyCallsComeAndGo) {
  std::atomic<bool> done{false};
  std::atomic<int> told{0}, late{0}, refused{0};
  std::thread sweeper([&] {
    while (!done) clock_.Advance(kTimeout / 4), calls_.Sweep();
  });
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        if (!calls_.Enter().ok()) {
          ++refused;
          continue;
        }
        const auto ticket = calls_.Await([&](const Status&) { ++told; });
        if (!calls_.Arrived(ticket)) ++late;
        calls_.Leave();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  done = true;
  sweeper.join();
  EXPECT_EQ(told, late);
  EXPECT_EQ(calls_.open(), 0);
  EXPECT_LT(refused, 2000);
}

}  // namespace
}  // namespace vicinal::server

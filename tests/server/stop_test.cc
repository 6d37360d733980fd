// SPDX-License-Identifier: Apache-2.0
#include "server/stop.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <latch>

#include "server/json_log.h"

namespace vicinal::server {
namespace {

constexpr std::chrono::milliseconds kHour = std::chrono::hours(1);
constexpr std::chrono::milliseconds kNone{0};

// Puts the thread's signal mask back.
class StopTest : public ::testing::Test {
 protected:
  StopTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    pthread_sigmask(SIG_SETMASK, nullptr, &before_);
    signals_ = BlockSignals();
  }
  ~StopTest() override { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  sigset_t before_, signals_;
  JsonLog log_{2, LogLevel::kError, &Clock::Real()};
};

TEST_F(StopTest, EndsWithTheStop) {
  int stopped = 0;
  EXPECT_EQ(StopOrExit({[&] { ++stopped; }, [] {}, kHour, kHour}, signals_, log_), 0);
  EXPECT_EQ(stopped, 1);
}

TEST_F(StopTest, AFurtherSignalHurries) {
  std::latch hurried(1);
  pthread_kill(pthread_self(), SIGHUP);  // heeded by nobody
  pthread_kill(pthread_self(), SIGTERM);
  EXPECT_EQ(StopOrExit({[&] { hurried.wait(); }, [&] { hurried.count_down(); }, kHour, kHour}, signals_, log_), 0);
}

TEST_F(StopTest, AStuckStopEndsTheProcess) {
  std::latch never(1);
  EXPECT_EXIT(StopOrExit({[&] { never.wait(); }, [] {}, kNone, kHour}, signals_, log_),
              ::testing::ExitedWithCode(kStuckExit), "\"level\":\"error\".*stuck while stopping");
}

TEST_F(StopTest, AStuckStopEndsWithTheCodeItWasGiven) {
  std::latch never(1);
  EXPECT_EXIT(StopOrExit({[&] { never.wait(); }, [] {}, kNone, kHour, kDeviceLostExit}, signals_, log_),
              ::testing::ExitedWithCode(kDeviceLostExit), "stuck while stopping");
}

TEST_F(StopTest, AStuckStopEndsTheProcessSoonerWhenHurried) {
  std::latch never(1);
  const StopPlan plan = {[&] { never.wait(); }, [] {}, kHour, kNone};
  EXPECT_EXIT(
      {
        pthread_kill(pthread_self(), SIGINT);
        StopOrExit(plan, signals_, log_);
      },
      ::testing::ExitedWithCode(kStuckExit), "stuck while stopping");
}

}  // namespace
}  // namespace vicinal::server

// SPDX-License-Identifier: Apache-2.0
#include "server/log_limiter.h"

#include <gtest/gtest.h>

namespace vicinal::server {
namespace {

TEST(LogLimiterTest, LetsOneLinePerPeriodThroughAndCountsTheRest) {
  FakeClock clock;
  LogLimiter limiter(clock, std::chrono::seconds(1));
  EXPECT_EQ(limiter.Admit(), 0);
  EXPECT_EQ(limiter.Admit(), std::nullopt);
  clock.Advance(std::chrono::milliseconds(999));
  EXPECT_EQ(limiter.Admit(), std::nullopt);
  clock.Advance(std::chrono::milliseconds(1));
  EXPECT_EQ(limiter.Admit(), 2);
  clock.Advance(std::chrono::seconds(10));
  EXPECT_EQ(limiter.Admit(), 0);
}

TEST(LogLimiterTest, LetsABurstThrough) {
  FakeClock clock;
  LogLimiter limiter(clock, std::chrono::seconds(10), 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(limiter.Admit(), 0);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(limiter.Admit(), std::nullopt);
  clock.Advance(std::chrono::seconds(10));
  EXPECT_EQ(limiter.Admit(), 5);
  EXPECT_EQ(limiter.Admit(), 0);
}

}  // namespace
}  // namespace vicinal::server

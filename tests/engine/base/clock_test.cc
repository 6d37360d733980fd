// SPDX-License-Identifier: Apache-2.0
#include "engine/base/clock.h"

#include <gtest/gtest.h>

namespace vicinal {
namespace {

TEST(FakeClock, MovesOnlyWhenTold) {
  FakeClock clock;
  const MonotonicTime begin = clock.Now();
  const WallTime wall = clock.WallNow();
  EXPECT_EQ(clock.Now(), begin);
  clock.Advance(std::chrono::milliseconds(1500));
  EXPECT_DOUBLE_EQ(SecondsBetween(begin, clock.Now()), 1.5);
  EXPECT_EQ(clock.WallNow() - wall, std::chrono::milliseconds(1500));
}

TEST(RealClock, NeverGoesBack) {
  const Clock& clock = Clock::Real();
  EXPECT_EQ(&clock, &Clock::Real());
  MonotonicTime last = clock.Now();
  for (int i = 0; i < 1000; ++i) {
    const MonotonicTime now = clock.Now();
    EXPECT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace vicinal

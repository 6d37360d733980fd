// SPDX-License-Identifier: Apache-2.0
// Few refusals are answered at once, many together; each exactly once.
#include "server/held_refusals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <vector>

namespace vicinal::server {
namespace {

TEST(HeldRefusalsTest, FewAreAnsweredAtOnceInEachPeriod) {
  FakeClock clock;
  HeldRefusals refusals(clock);
  int answered = 0;
  for (int period = 1; period <= 3; ++period) {
    for (int i = 0; i < HeldRefusals::kAtOnce; ++i) refusals.Answer([&answered] { ++answered; });
    EXPECT_EQ(answered, period * HeldRefusals::kAtOnce);
    clock.Advance(HeldRefusals::kPeriod);
  }
}

TEST(HeldRefusalsTest, ManyWaitForTheEndOfTheirPeriod) {
  FakeClock clock;
  std::vector<int> calls(HeldRefusals::kAtOnce + 5);
  {
    HeldRefusals refusals(clock);
    for (int& call : calls) refusals.Answer([&call] { ++call; });
    EXPECT_EQ(std::count(calls.begin(), calls.end(), 1), HeldRefusals::kAtOnce) << "the clock stands still";
  }
  EXPECT_EQ(std::count(calls.begin(), calls.end(), 1), static_cast<int64_t>(calls.size())) << "none is lost at the end";
}

TEST(HeldRefusalsTest, WhereManyFollowOnManyAllAreHeld) {
  FakeClock clock;
  HeldRefusals refusals(clock);
  std::atomic<int> answered{0};
  // Answers of `count` refusals at once; the others when the period has ended, for which this waits.
  const auto period = [&](int count) {
    std::promise<void> all;
    const int expected = answered + count;
    for (int i = 0; i < count; ++i) {
      refusals.Answer([&answered, &all, expected] {
        if (++answered == expected) all.set_value();
      });
    }
    const int at_once = answered - (expected - count);
    clock.Advance(HeldRefusals::kPeriod);
    all.get_future().wait();
    return at_once;
  };
  EXPECT_EQ(period(HeldRefusals::kAtOnce + 5), HeldRefusals::kAtOnce);
  EXPECT_EQ(period(HeldRefusals::kAtOnce + 5), 0);
  EXPECT_EQ(period(3), 0);
  EXPECT_EQ(period(3), 3) << "few came before";
  EXPECT_EQ(period(HeldRefusals::kAtOnce + 5), HeldRefusals::kAtOnce);
  clock.Advance(HeldRefusals::kPeriod);
  EXPECT_EQ(period(HeldRefusals::kAtOnce + 5), HeldRefusals::kAtOnce) << "after a pause";
}

TEST(HeldRefusalsTest, TheyAreAnsweredWhenItHasEnded) {
  HeldRefusals refusals(Clock::Real());
  std::promise<void> last;
  std::atomic<int> left{HeldRefusals::kAtOnce + 5};
  for (int i = left; i > 0; --i) {
    refusals.Answer([&left, &last] {
      if (--left == 0) last.set_value();
    });
  }
  last.get_future().wait();
  EXPECT_EQ(left, 0);
}

}  // namespace
}  // namespace vicinal::server

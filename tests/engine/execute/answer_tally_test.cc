// SPDX-License-Identifier: Apache-2.0
// When passes of kept answers may run, with times given by hand.
#include "engine/execute/answer_tally.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>

namespace vicinal {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int64_t kBytes = 1000;  // of the answer
constexpr MonotonicTime kStart{std::chrono::hours(1)};

TEST(AnswerTallyTest, QueriesPayForAPass) {
  AnswerTally tally;
  EXPECT_FALSE(tally.Paid(false));
  EXPECT_TRUE(tally.Paid(true));
  tally.Computed(0.6, 0.25);
  EXPECT_FALSE(tally.Paid(false));
  tally.Computed(0.6, 0.25);
  EXPECT_TRUE(tally.Paid(false));
  EXPECT_TRUE(tally.MayOrder(kStart, 0));
  EXPECT_EQ(tally.Order(kStart, tally.seconds(), 0), kStart + milliseconds(500));
  EXPECT_FALSE(tally.MayOrder(kStart + seconds(9), 0)) << "it is ordered already";
}

TEST(AnswerTallyTest, RefusedPassesWaitTwiceAsLongEachTime) {
  AnswerTally tally;
  MonotonicTime now = kStart;
  for (const int wait_seconds : {1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}) {
    const seconds wait(wait_seconds);
    ASSERT_TRUE(tally.MayOrder(now, 10));
    tally.Order(now, 0.0, 10);
    tally.CameToNothing(now, 0.0, kBytes);
    EXPECT_FALSE(tally.MayOrder(now + wait - milliseconds(1), kBytes - 1)) << wait_seconds;
    now += wait;
  }
}

TEST(AnswerTallyTest, MemoryThatBecameFreeEndsTheWait) {
  AnswerTally tally;
  tally.Order(kStart, 0.0, 10);
  tally.CameToNothing(kStart, 0.0, kBytes);
  EXPECT_FALSE(tally.MayOrder(kStart, kBytes - 1));
  EXPECT_TRUE(tally.MayOrder(kStart, kBytes));
  // There seemed to be room, but there was not: the same does not count again.
  tally.Order(kStart, 0.0, kBytes);
  tally.CameToNothing(kStart, 0.0, kBytes);
  EXPECT_FALSE(tally.MayOrder(kStart, kBytes));
  EXPECT_FALSE(tally.MayOrder(kStart, 2 * kBytes - 1));
  EXPECT_TRUE(tally.MayOrder(kStart, 2 * kBytes));
}

TEST(AnswerTallyTest, WhatCameToNothingIsPaidForToo) {
  AnswerTally tally;
  tally.Computed(1.0, 0.5);
  tally.Order(kStart, tally.seconds(), 0);
  tally.CameToNothing(kStart, 0.75, kBytes);
  EXPECT_FALSE(tally.Paid(true)) << "the first query pays only once";
  tally.Computed(1.0, 0.5);
  EXPECT_FALSE(tally.Paid(false)) << "as much as a pass, but not as much as was lost";
  tally.Computed(0.5, 0.25);
  EXPECT_TRUE(tally.Paid(false));
  tally.Order(kStart, tally.seconds(), 0);
  tally.CameToNothing(kStart, 0.25, kBytes);
  tally.Computed(2.0, 0.75);
  EXPECT_FALSE(tally.Paid(false)) << "both passes were lost";
  tally.Computed(0.5, 0.25);
  EXPECT_TRUE(tally.Paid(false));
}

// Attempts of 10 ms each, as often as the tally lets them begin: the oracle is the part of the time that they take.
TEST(AnswerTallyTest, InterruptedAttemptsTakeASmallPartOfTheTime) {
  AnswerTally tally;
  tally.Computed(2.0, 5.0);
  ASSERT_EQ(tally.Order(kStart, tally.seconds(), 0), kStart + seconds(5));
  MonotonicTime now = kStart;
  int attempts = 0;
  for (;;) {
    now += milliseconds(10);
    ++attempts;
    if (tally.Interrupted(now, 0.01)) {
      ADD_FAILURE() << "an eighth of the time is used up after each attempt";
      return;
    }
    while (!tally.MayOrder(now, 0)) now += milliseconds(1);
    if (tally.Order(now, 99.0, 0) <= now) break;  // its turn, whoever waits
  }
  // It waited 5 s and what attempts took.
  EXPECT_EQ(now, kStart + seconds(5) + milliseconds(10) * attempts);
  EXPECT_LE(attempts, 5000 / 70 + 1);
  EXPECT_GE(attempts, 5000 / 80);
}

TEST(AnswerTallyTest, AnAttemptAfterALongWaitIsRepeatedAtOnce) {
  AnswerTally tally;
  tally.Order(kStart, 60.0, 0);
  EXPECT_TRUE(tally.Interrupted(kStart + seconds(8), 1.0));
  EXPECT_TRUE(tally.ordered());
  EXPECT_EQ(tally.Due(), kStart + seconds(61));
  EXPECT_FALSE(tally.Interrupted(kStart + seconds(9), 1.0));
  EXPECT_FALSE(tally.ordered());
  EXPECT_FALSE(tally.MayOrder(kStart + seconds(16) - milliseconds(1), 0));
  EXPECT_TRUE(tally.MayOrder(kStart + seconds(16), 0));
}

// Without a budget memory is no reason, so that only time lets a pass be tried again.
TEST(AnswerTallyTest, WithoutABudgetAFailedPassWaits) {
  constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
  AnswerTally tally;
  tally.Order(kStart, 1.0, kUnbounded);
  tally.CameToNothing(kStart, 0.1, 40'000);
  EXPECT_FALSE(tally.MayOrder(kStart + milliseconds(1), kUnbounded));
  EXPECT_TRUE(tally.MayOrder(kStart + AnswerTally::kFirstWait, kUnbounded));
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/build/scratch_ledger.h"

#include <gtest/gtest.h>

#include <random>

namespace vicinal::internal {
namespace {

TEST(ScratchLedger, BookingsThatNeverLiveTogetherShareBytes) {
  ScratchLedger ledger;
  const int a = ledger.Book(1000, 0, 1);
  const int b = ledger.Book(1000, 2, 3);
  ledger.Assign();
  EXPECT_EQ(ledger.offset(a), ledger.offset(b));
  EXPECT_EQ(ledger.total_bytes(), 1024u);
}

TEST(ScratchLedger, AStepsInputAndOutputAreApart) {
  ScratchLedger ledger;
  const int a = ledger.Book(64, 0, 1);
  const int b = ledger.Book(64, 1, 2);
  ledger.Assign();
  EXPECT_NE(ledger.offset(a), ledger.offset(b));
}

TEST(ScratchLedger, AChainNeedsTwoBuffers) {
  ScratchLedger ledger;
  for (int step = 0; step < 10; ++step) ledger.Book(640, step, step + 1);
  ledger.Assign();
  EXPECT_EQ(ledger.total_bytes(), 2 * 640u);
}

TEST(ScratchLedger, NothingBookedNeedsNothing) {
  ScratchLedger ledger;
  ledger.Assign();
  EXPECT_EQ(ledger.total_bytes(), 0u);
  ledger.Book(0, 0, 5);
  ledger.Assign();
  EXPECT_EQ(ledger.total_bytes(), 0u);
}

TEST(ScratchLedger, NoTwoLiveBookingsOverlapWhateverIsBooked) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    struct Booked {
      size_t bytes;
      int first, last, id;
    };
    ScratchLedger ledger;
    std::vector<Booked> all;
    size_t sum = 0;
    for (int i = 0; i < 30; ++i) {
      Booked booked{random() % 5000, static_cast<int>(random() % 20), 0, 0};
      booked.last = booked.first + static_cast<int>(random() % 6);
      booked.id = ledger.Book(booked.bytes, booked.first, booked.last);
      sum += (booked.bytes + 63) / 64 * 64;
      all.push_back(booked);
    }
    ledger.Assign();
    EXPECT_LE(ledger.total_bytes(), sum);
    for (const Booked& a : all) {
      EXPECT_EQ(ledger.offset(a.id) % ScratchLedger::kAlignment, 0u);
      EXPECT_LE(ledger.offset(a.id) + a.bytes, ledger.total_bytes());
      for (const Booked& b : all) {
        if (a.id == b.id || a.first > b.last || b.first > a.last || a.bytes == 0 || b.bytes == 0) continue;
        const bool apart = ledger.offset(a.id) + a.bytes <= ledger.offset(b.id) ||
                           ledger.offset(b.id) + b.bytes <= ledger.offset(a.id);
        EXPECT_TRUE(apart) << "bookings " << a.id << " and " << b.id << " in round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace vicinal::internal

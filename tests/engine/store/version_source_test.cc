// SPDX-License-Identifier: Apache-2.0
#include "engine/store/version_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.h"

namespace vicinal {
namespace {

int64_t Next(VersionSource& source) { return source.Claim()->Take(); }

// Hands out blocks, records them, and fails while told to.
struct Blocks {
  int64_t next = 1;
  bool fails = false;
  int64_t reserved = 0;

  VersionSource::ReserveBlock Reserve() {
    return [this](int64_t count) -> StatusOr<int64_t> {
      if (fails) return ResourceExhausted("STATE_DISK_FULL", "the disk is full", std::chrono::seconds(1));
      ++reserved;
      return std::exchange(next, next + count);
    };
  }
};

TEST(VersionSource, CountsFromOne) {
  VersionSource source;
  EXPECT_EQ(Next(source), 1);
  EXPECT_EQ(Next(source), 2);
}

TEST(VersionSource, AnUnusedClaimLeavesNoGap) {
  VersionSource source;
  { const StatusOr<VersionClaim> unused = source.Claim(); }
  EXPECT_EQ(Next(source), 1);
}

TEST(VersionSource, NumbersRiseInTheOrderTheyAreTaken) {
  VersionSource source;
  VersionClaim first = *source.Claim();
  VersionClaim second = *source.Claim();
  EXPECT_EQ(second.Take(), 1);
  EXPECT_EQ(first.Take(), 2);
}

TEST(VersionSource, ABlockIsReservedBeforeItsFirstNumberIsClaimed) {
  Blocks blocks;
  VersionSource source(blocks.Reserve());
  EXPECT_EQ(blocks.reserved, 0);
  for (int64_t i = 1; i <= VersionSource::kBlock; ++i) ASSERT_EQ(Next(source), i);
  EXPECT_EQ(blocks.reserved, 1);
  EXPECT_EQ(Next(source), VersionSource::kBlock + 1);
  EXPECT_EQ(blocks.reserved, 2);
}

TEST(VersionSource, ClaimsThatAreHeldCountAgainstTheBlock) {
  Blocks blocks;
  VersionSource source(blocks.Reserve());
  std::vector<VersionClaim> claims;
  for (int64_t i = 0; i <= VersionSource::kBlock; ++i) claims.push_back(*source.Claim());
  EXPECT_EQ(blocks.reserved, 2);
  for (size_t i = 0; i < claims.size(); ++i) ASSERT_EQ(claims[i].Take(), static_cast<int64_t>(i) + 1);
}

TEST(VersionSource, ABlockThatDoesNotJoinTheLastOneIsTakenFromItsStart) {
  Blocks blocks;
  VersionSource source(blocks.Reserve());
  for (int64_t i = 0; i < VersionSource::kBlock; ++i) Next(source);
  blocks.next = 5000;  // another process used the numbers between
  EXPECT_EQ(Next(source), 5000);
}

TEST(VersionSource, AFailedReservationClaimsNothingAndRecovers) {
  Blocks blocks;
  blocks.fails = true;
  VersionSource source(blocks.Reserve());
  EXPECT_EQ(source.Claim().status().code(), StatusCode::kResourceExhausted);
  blocks.fails = false;
  EXPECT_EQ(Next(source), 1);
}

TEST(VersionSource, ThreadsNeverGetTheSameNumber) {
  Blocks blocks;
  VersionSource source(blocks.Reserve());
  constexpr int kThreads = 4, kEach = 3000;
  std::vector<std::vector<int64_t>> taken(kThreads);
  std::vector<std::thread> threads;
  for (std::vector<int64_t>& mine : taken) {
    mine.reserve(kEach);
    threads.emplace_back([&source, &mine] {
      for (int i = 0; i < kEach; ++i) {
        VersionClaim claim = *source.Claim();
        if (i % 7 != 0) mine.push_back(claim.Take());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<int64_t> all;
  size_t count = 0;
  for (const std::vector<int64_t>& mine : taken) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(mine.begin(), mine.end());
    count += mine.size();
  }
  EXPECT_EQ(all.size(), count);
  EXPECT_LT(*all.rbegin(), blocks.next);
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
#include "server/reply_shares.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "engine/base/error.h"

namespace vicinal::server {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(ReplySharesTest, EachPrincipalHasItsOwnUntilItsRepliesAreGone) {
  ReplyShares shares(10 * kMiB);
  auto first = shares.Take("a", 6 * kMiB);
  ASSERT_TRUE(first.ok()) << first.status();
  const Status full = shares.Take("a", 5 * kMiB).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(full)->reason, "CLIENT_REPLIES_FULL");
  EXPECT_TRUE(DetailOf(full)->retry_after.has_value());
  EXPECT_TRUE(shares.Take("b", 5 * kMiB).ok());
  EXPECT_TRUE(shares.Take("a", 4 * kMiB).ok()) << "it fits";
  std::shared_ptr<const void> copy = *first;
  first->reset();
  EXPECT_EQ(shares.bytes_of("a"), 6 * kMiB) << "a copy is left";
  copy.reset();
  EXPECT_EQ(shares.bytes_of("a"), 0);
  EXPECT_TRUE(shares.Take("a", 5 * kMiB).ok());
}

TEST(ReplySharesTest, OneReplyMayBeLargerThanAShare) {
  ReplyShares shares(2 * kMiB);
  const auto large = shares.Take("a", 50 * kMiB);
  ASSERT_TRUE(large.ok());
  EXPECT_FALSE(shares.Take("a", 2 * kMiB).ok());
}

TEST(ReplySharesTest, SmallRepliesAndNoBoundCountNothing) {
  ReplyShares shares(2 * kMiB);
  const auto small = shares.Take("a", kMiB);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(*small, nullptr);
  ReplyShares unbounded(0);
  const auto large = unbounded.Take("a", 50 * kMiB);
  ASSERT_TRUE(large.ok());
  EXPECT_EQ(unbounded.bytes_of("a"), 0);
}

TEST(ReplySharesTest, OfStreamsEverythingCounts) {
  ReplyShares shares(4 * kMiB, ReplyShares::Of::kStreams);
  const auto small = shares.Take("a", 100);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(shares.bytes_of("a"), 100);
  EXPECT_FALSE(shares.HalfFull("a"));
  const auto more = shares.Take("a", 2 * kMiB);
  ASSERT_TRUE(more.ok());
  EXPECT_TRUE(shares.HalfFull("a"));
  EXPECT_FALSE(shares.HalfFull("b"));
  const Status full = shares.Take("a", 2 * kMiB).status();
  EXPECT_EQ(DetailOf(full)->reason, "CLIENT_STREAMS_FULL");
  EXPECT_TRUE(shares.Take("b", 3 * kMiB).ok());
  EXPECT_EQ(shares.bytes(), 100 + 2 * kMiB);
  EXPECT_EQ(shares.refusals(), 1);
}

TEST(ReplySharesTest, ThreadsTakeAndGiveBack) {
  auto shares = std::make_unique<ReplyShares>(8 * kMiB);
  std::atomic<int> refused{0};
  std::shared_ptr<const void> last = *shares->Take("a", 2 * kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const auto taken = shares->Take("a", 3 * kMiB);
        if (!taken.ok()) ++refused;
        EXPECT_LE(shares->bytes_of("a"), 8 * kMiB);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shares->bytes_of("a"), 2 * kMiB);
  shares.reset();
  last.reset();  // after the object
}

}  // namespace
}  // namespace vicinal::server

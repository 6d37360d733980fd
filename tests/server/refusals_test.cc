// SPDX-License-Identifier: Apache-2.0
#include "server/refusals.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace vicinal::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class RefusalsTest : public ::testing::Test {
 protected:
  RefusalsTest() {
    refusals_.Ends(
        [this](const std::vector<std::string>& peers) { ended_.insert(ended_.end(), peers.begin(), peers.end()); });
  }
  ~RefusalsTest() override { close(null_); }
  void Count(const std::string& peer, int64_t times) {
    for (int64_t i = 0; i < times; ++i) refusals_.Count(peer);
  }

  const int null_ = open("/dev/null", O_WRONLY | O_CLOEXEC);
  FakeClock clock_;
  JsonLog log_{null_, LogLevel::kError, &Clock::Real()};
  Refusals refusals_{clock_, &log_};
  std::vector<std::string> ended_;
};

TEST_F(RefusalsTest, TheConnectionsOfOneAddressEndTogether) {
  Count("10.0.0.1:100", Refusals::kMost / 2);
  Count("10.0.0.2:100", Refusals::kMost);
  Count("10.0.0.1:200", Refusals::kMost / 2);
  EXPECT_THAT(ended_, IsEmpty());
  Count("10.0.0.1:300", 1);
  EXPECT_THAT(ended_, UnorderedElementsAre("10.0.0.1:100", "10.0.0.1:200", "10.0.0.1:300"));
  // What follows in the same period is ended at once, also under a name that was ended before.
  ended_.clear();
  Count("10.0.0.1:400", 1);
  Count("10.0.0.1:100", 1);
  EXPECT_THAT(ended_, ElementsAre("10.0.0.1:400", "10.0.0.1:100"));
}

TEST_F(RefusalsTest, EachPeriodBeginsAnew) {
  Count("[::2]:1", Refusals::kMost);
  clock_.Advance(Refusals::kPeriod);
  Count("[::2]:2", Refusals::kMost);
  EXPECT_THAT(ended_, IsEmpty());
  Count("[::2]:2", 1);
  EXPECT_THAT(ended_, ElementsAre("[::2]:2"));
}

TEST_F(RefusalsTest, ProxiesOfThisMachineAreNotEnded) {
  for (const char* proxy : {"unix:", "127.0.0.1:4711", "[::1]:4711"}) Count(proxy, 3 * Refusals::kMost);
  EXPECT_THAT(ended_, IsEmpty());
}

TEST_F(RefusalsTest, ThreadsCountTogether) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] { Count("10.0.0.1:" + std::to_string(t), Refusals::kMost / 4); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(ended_, IsEmpty());
  Count("10.0.0.1:0", 1);
  EXPECT_EQ(ended_.size(), 4u);
}

}  // namespace
}  // namespace vicinal::server

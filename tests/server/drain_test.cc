// SPDX-License-Identifier: Apache-2.0
#include "server/drain.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace vicinal::server {
namespace {

constexpr auto kLong = std::chrono::hours(1);
MonotonicTime Soon() { return std::chrono::steady_clock::now(); }
MonotonicTime Late() { return std::chrono::steady_clock::now() + kLong; }

TEST(DrainTest, RefusesOnceItHasBegunAndWaitsForTheLast) {
  Drain drain;
  EXPECT_TRUE(drain.Enter());
  drain.Begin();
  EXPECT_FALSE(drain.Enter());
  drain.Leave();
  EXPECT_FALSE(drain.Wait(Soon()));  // one is still there
  std::thread last([&] { drain.Leave(); });
  EXPECT_TRUE(drain.Wait(Late()));
  last.join();
  EXPECT_EQ(Drain::Refusal().code(), StatusCode::kUnavailable);
}

TEST(DrainTest, TellsStreamsOnceAndForgets) {
  Drain drain;
  int told = 0, forgotten = 0;
  drain.OnDrain([&] { ++told; });
  drain.Forget(drain.OnDrain([&] { ++forgotten; }));
  drain.Begin();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(forgotten, 0);
  drain.OnDrain([&] { ++told; });  // too late: at once
  EXPECT_EQ(told, 2);
}

TEST(DrainTest, HurryEndsWaits) {
  Drain drain;
  EXPECT_FALSE(drain.hurried());
  drain.Enter();
  std::thread hurrier([&] { drain.Hurry(); });
  EXPECT_FALSE(drain.Delay(Late()));
  hurrier.join();
  EXPECT_TRUE(drain.hurried());
  drain.Begin();
  EXPECT_FALSE(drain.Wait(Late()));
}

TEST(DrainTest, LingersWhileCallsAreRefused) {
  Drain drain;
  drain.Begin();
  drain.Linger(std::chrono::milliseconds(1), Late());  // none comes
  drain.Linger(kLong, Soon());
  // One that never gives up: the deadline ends it.
  std::atomic<bool> over{false};
  std::thread caller([&] {
    while (!over) {
      EXPECT_FALSE(drain.Enter());
      drain.Leave();
    }
  });
  drain.Linger(std::chrono::minutes(1), std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
  std::thread hurrier([&] { drain.Hurry(); });
  drain.Linger(kLong, Late());
  hurrier.join();
  over = true;
  caller.join();
}

TEST(DrainTest, StressManyCallsWhileItBegins) {
  for (int round = 0; round < 20; ++round) {
    Drain drain;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        while (drain.Enter()) drain.Leave();
        drain.Leave();
      });
    }
    drain.Begin();
    EXPECT_TRUE(drain.Wait(Late()));
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace vicinal::server

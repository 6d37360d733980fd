// SPDX-License-Identifier: Apache-2.0
#include "server/silence_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace vicinal::server {
namespace {

constexpr std::chrono::milliseconds kLongest{1000};

TEST(SilenceWatchTest, EndsWhoSaysNothingOnce) {
  FakeClock clock;
  SilenceWatch watch(clock, kLongest);
  int silent = 0, talking = 0;
  watch.Begin([&] { ++silent; });
  const int64_t talks = watch.Begin([&] { ++talking; });
  clock.Advance(kLongest - std::chrono::milliseconds(1));
  watch.Sweep();
  EXPECT_EQ(silent + talking, 0);
  watch.Heard(talks);
  clock.Advance(std::chrono::milliseconds(1));
  watch.Sweep();
  watch.Sweep();
  EXPECT_EQ(silent, 1);
  EXPECT_EQ(talking, 0);
  clock.Advance(kLongest);
  watch.Sweep();
  EXPECT_EQ(silent, 1);
  EXPECT_EQ(talking, 1);
}

TEST(SilenceWatchTest, NobodyIsSilentWhoseTurnItIsNot) {
  FakeClock clock;
  SilenceWatch watch(clock, kLongest);
  int ended = 0;
  const int64_t id = watch.Begin([&] { ++ended; });
  watch.Pause(id);
  watch.Pause(id + 1);  // never begun
  clock.Advance(10 * kLongest);
  watch.Sweep();
  EXPECT_EQ(ended, 0);
  watch.Heard(id);
  watch.Sweep();
  EXPECT_EQ(ended, 0) << "its time begins anew";
  clock.Advance(kLongest);
  watch.Sweep();
  EXPECT_EQ(ended, 1);
}

TEST(SilenceWatchTest, WhoIsForgottenIsNotEnded) {
  FakeClock clock;
  SilenceWatch watch(clock, kLongest);
  int ended = 0;
  const int64_t id = watch.Begin([&] { ++ended; });
  watch.Forget(id);
  watch.Forget(id);
  watch.Forget(0);  // never begun
  watch.Heard(id);
  clock.Advance(kLongest);
  watch.Sweep();
  EXPECT_EQ(ended, 0);
}

// A stream that ends another way while it is being ended for its silence goes only after that.
TEST(SilenceWatchTest, ForgettingWaitsForTheEnd) {
  FakeClock clock;
  SilenceWatch watch(clock, kLongest);
  std::atomic<bool> running{false}, may_end{false}, ended{false};
  int64_t id = 0;
  id = watch.Begin([&] {
    watch.Heard(id);  // said by whatever it sets off
    running = true;
    while (!may_end) std::this_thread::yield();
    ended = true;
  });
  clock.Advance(kLongest);
  std::thread sweeper([&] { watch.Sweep(); });
  while (!running) std::this_thread::yield();
  std::thread forgetter([&] {
    watch.Forget(id);
    EXPECT_TRUE(ended);
  });
  may_end = true;
  forgetter.join();
  sweeper.join();
}

// The thread sanitizer looks on.
TEST(SilenceWatchTest, ManyStreamsComeAndGo) {
  FakeClock clock;
  SilenceWatch watch(clock, kLongest);
  std::atomic<bool> done{false};
  std::atomic<int> ended{0};
  std::thread sweeper([&] {
    while (!done) clock.Advance(kLongest / 2), watch.Sweep();
  });
  std::vector<std::thread> streams;
  for (int t = 0; t < 4; ++t) {
    streams.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const int64_t id = watch.Begin([&] { ++ended; });
        watch.Heard(id);
        watch.Forget(id);
      }
    });
  }
  for (std::thread& stream : streams) stream.join();
  done = true;
  sweeper.join();
  EXPECT_LE(ended, 800);
}

}  // namespace
}  // namespace vicinal::server

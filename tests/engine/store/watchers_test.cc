// SPDX-License-Identifier: Apache-2.0
// Watchers with threads that meet at known points: one call at a time, none lost, none after the drop.
#include "engine/store/watchers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace vicinal::internal {
namespace {

TEST(Watcher, AChangeDuringACallIsAnsweredByOneMore) {
  std::promise<void> entered, go_on;
  std::shared_future<void> may_go = go_on.get_future().share();
  std::atomic<int> calls = 0;
  Watcher watcher([&] {
    if (++calls == 1) {
      entered.set_value();
      may_go.wait();
    }
  });
  std::thread first([&] { watcher.Fire(); });
  entered.get_future().wait();
  watcher.Fire();  // returns at once: the call under way is followed by one for both
  watcher.Fire();
  EXPECT_EQ(calls, 1);
  go_on.set_value();
  first.join();
  EXPECT_EQ(calls, 2);
}

TEST(Watcher, StopWaitsForTheCallThatRuns) {
  std::promise<void> entered, go_on;
  std::shared_future<void> may_go = go_on.get_future().share();
  std::atomic<bool> done = false;
  Watcher watcher([&] {
    entered.set_value();
    may_go.wait();
    done = true;
  });
  std::thread caller([&] { watcher.Fire(); });
  entered.get_future().wait();
  std::promise<void> stopping;
  std::thread stopper([&] {
    stopping.set_value();
    watcher.Stop();
    EXPECT_TRUE(done);
  });
  stopping.get_future().wait();
  EXPECT_FALSE(done);
  go_on.set_value();
  stopper.join();
  caller.join();
  watcher.Fire();  // promise would throw if this called
}

TEST(Watchers, TellOnlyTheirName) {
  Watchers watchers;
  int a = 0, b = 0;
  const auto first = watchers.Add("a", [&] { ++a; });
  const auto second = watchers.Add("a", [&] { ++a; });
  const auto third = watchers.Add("b", [&] { ++b; });
  watchers.Notify("a");
  watchers.Notify("nobody");
  EXPECT_EQ(a, 2);
  EXPECT_EQ(b, 0);
  watchers.Remove("a", first);
  watchers.Notify("a");
  EXPECT_EQ(a, 3);
}

}  // namespace
}  // namespace vicinal::internal

// SPDX-License-Identifier: Apache-2.0
#include "server/health_states.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace vicinal::server {
namespace {

TEST(HealthStatesTest, LiveFromTheStartAndReadyWhenTold) {
  HealthStates states({"a.Service"});
  EXPECT_EQ(states.Serves("liveness"), true);
  for (const char* name : {"", "readiness", "a.Service"}) EXPECT_EQ(states.Serves(name), false) << name;
  EXPECT_EQ(states.Serves("another"), std::nullopt);
  states.SetReady(true);
  for (const char* name : {"", "readiness", "a.Service", "liveness"}) EXPECT_EQ(states.Serves(name), true) << name;
}

TEST(HealthStatesTest, TellsOfChangesOnly) {
  HealthStates states({});
  std::vector<bool> seen;
  const int64_t id = states.Watch([&] { seen.push_back(*states.Serves("")); });
  states.SetReady(false);
  states.SetReady(true);
  states.SetReady(true);
  states.SetReady(false);
  states.Forget(id);
  states.Forget(id);
  states.SetReady(true);
  EXPECT_EQ(seen, std::vector<bool>({true, false}));
}

// The thread sanitizer looks on.
TEST(HealthStatesTest, WatchersComeAndGoDuringChanges) {
  HealthStates states({"a.Service"});
  std::atomic<bool> done{false};
  std::atomic<int> told{0};
  std::thread changer([&] {
    for (bool ready = true; !done; ready = !ready) states.SetReady(ready);
  });
  std::vector<std::thread> watchers;
  for (int t = 0; t < 3; ++t) {
    watchers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const int64_t id = states.Watch([&] { told += states.Serves("a.Service").has_value(); });
        states.Forget(id);
      }
    });
  }
  for (std::thread& watcher : watchers) watcher.join();
  done = true;
  changer.join();
  const int before = told;
  states.SetReady(!*states.Serves(""));
  EXPECT_EQ(told, before);  // nobody is left to be told
}

}  // namespace
}  // namespace vicinal::server

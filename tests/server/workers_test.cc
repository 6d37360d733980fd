// SPDX-License-Identifier: Apache-2.0
#include "server/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>

namespace vicinal::server {
namespace {

TEST(WorkersTest, RunsAllThatWasTakenBeforeItEnds) {
  std::atomic<int> done{0};
  {
    Workers workers(3, 1000);
    for (int i = 0; i < 500; ++i) EXPECT_TRUE(workers.Post([&] { ++done; }).ok());
  }
  EXPECT_EQ(done, 500);
}

TEST(WorkersTest, AJobWithoutMemoryDoesNotTakeTheThreadWithIt) {
  std::atomic<int> done{0};
  {
    Workers workers(1, 2);
    EXPECT_TRUE(workers.Post([] { throw std::bad_alloc(); }).ok());
    workers.PostAdmitted([&] { ++done; });
  }
  EXPECT_EQ(done, 1);
}

TEST(WorkersTest, RefusesWhatDoesNotFitButNotWhatIsAdmitted) {
  std::atomic<int> done{0};
  Mutex gate;
  gate.Lock();
  {
    Workers workers(1, 2);
    std::atomic<bool> started{false};
    EXPECT_TRUE(workers
                    .Post([&] {
                      started = true;
                      MutexLock lock(&gate);
                      ++done;
                    })
                    .ok());
    while (!started) {
    }
    EXPECT_TRUE(workers.Post([&] { ++done; }).ok());
    EXPECT_TRUE(workers.Post([&] { ++done; }).ok());
    EXPECT_EQ(workers.Post([&] { ++done; }).code(), StatusCode::kUnavailable);
    workers.PostAdmitted([&] { ++done; });
    gate.Unlock();
  }
  EXPECT_EQ(done, 4);
}

}  // namespace
}  // namespace vicinal::server

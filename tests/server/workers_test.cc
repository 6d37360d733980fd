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

// Streams that end let go of themselves here, many at once: that must not look like a busy server.
TEST(WorkersTest, WhatIsAdmittedTakesNoPlace) {
  std::atomic<int> done{0};
  Mutex gate;
  gate.Lock();
  {
    Workers workers(1, 1);
    workers.PostAdmitted([&] { MutexLock lock(&gate); });
    for (int i = 0; i < 10; ++i) workers.PostAdmitted([&] { ++done; });
    EXPECT_TRUE(workers.Post([&] { ++done; }).ok());
    const Status refused = workers.Post([&] { ++done; });
    EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
    EXPECT_NE(refused.message().find("--max_worker_queue"), absl::string_view::npos) << refused;
    gate.Unlock();
  }
  EXPECT_EQ(done, 11);
}

}  // namespace
}  // namespace vicinal::server

// SPDX-License-Identifier: Apache-2.0
// The pool under stress: each task once, exclusive thread numbers, callers that take turns, loops too short for a
// worker to join, loops that are stopped.
#include "engine/base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace vicinal {
namespace {

TEST(ThreadPool, EachTaskOnceWithThreadNumbersInRange) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (const int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> seen(tasks);
      std::atomic<bool> in_range{true};
      pool.ParallelFor(tasks, [&](int64_t task, int thread) {
        seen[task].fetch_add(1);
        if (thread < 0 || thread >= threads) in_range = false;
      });
      for (const auto& count : seen) EXPECT_EQ(count.load(), 1);
      EXPECT_TRUE(in_range);
    }
  }
}

// So that a thread meets again what it has in its own core's cache. Nobody goes on before both are in the loop, the
// caller not before the worker has its second task, and the worker not before the caller has done all others.
TEST(ThreadPool, EachThreadBeginsWithItsPartAndHelpsTheOther) {
  ThreadPool pool(2);
  constexpr size_t kTasks = 100;
  std::atomic<size_t> begun[2] = {0, 0};
  std::vector<std::vector<int64_t>> order(2);
  const auto await = [&](int thread, size_t tasks) {
    while (begun[thread].load() < tasks) std::this_thread::yield();
  };
  pool.ParallelFor(kTasks, [&](int64_t task, int thread) {
    order[thread].push_back(task);
    begun[thread].store(order[thread].size());
    await(1 - thread, 1);
    if (thread == 0) await(1, 2);
    if (thread == 1 && order[1].size() == 2) await(0, kTasks - 2);
  });
  std::vector<int64_t> callers(kTasks / 2);
  std::iota(callers.begin(), callers.end(), 0);
  for (int64_t task = kTasks - 1; task >= 52; --task) callers.push_back(task);
  EXPECT_EQ(order[0], callers) << "its own from the first on, then the other's from the last on";
  EXPECT_EQ(order[1], (std::vector<int64_t>{50, 51}));
}

TEST(ThreadPool, NegativeCountsAreNothing) {
  ThreadPool pool(2);
  pool.ParallelFor(-5, [](int64_t, int) { FAIL(); });
}

std::vector<int> CoresOfThisThread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

// Cores that the worker of a pool of two may use, asked for in a loop that both threads are in.
std::vector<int> CoresOfWorker(ThreadPool& pool) {
  std::atomic<int> inside{0};
  std::vector<int> cores;
  pool.ParallelFor(2, [&](int64_t, int thread) {
    inside.fetch_add(1);
    while (inside.load() < 2) std::this_thread::yield();
    if (thread == 1) cores = CoresOfThisThread();
  });
  return cores;
}

TEST(ThreadPool, AWorkerLeavesTheCallersCore) {
  const std::vector<int> all = CoresOfThisThread();
  if (all.size() < 2) GTEST_SKIP() << "needs two cores";
  ThreadPool pool(2, {all[0], all[1]});
  std::thread caller([&] {
    for (const int turn : {0, 1, 1, 0}) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(all[turn], &set);
      ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
      EXPECT_EQ(CoresOfWorker(pool), std::vector<int>{all[1 - turn]});
    }
  });
  caller.join();
}

TEST(ThreadPool, WithoutCoresAWorkerMayGoAnywhere) {
  ThreadPool pool(2);
  EXPECT_EQ(CoresOfWorker(pool), CoresOfThisThread());
}

// Scratch per thread number is never used by two at once: plain counters, which the thread sanitizer watches.
TEST(ThreadPool, AThreadNumberIsExclusive) {
  ThreadPool pool(4);
  struct alignas(64) Slot {
    int64_t sum = 0;
  };
  std::vector<Slot> slots(4);
  for (int round = 0; round < 200; ++round)
    pool.ParallelFor(100, [&](int64_t task, int thread) { slots[thread].sum += task; });
  EXPECT_EQ(
      std::accumulate(slots.begin(), slots.end(), int64_t{0}, [](int64_t sum, const Slot& s) { return sum + s.sum; }),
      200 * 4950);
}

// Loops that end before a worker wakes: it must not touch a loop that is over, whose body is gone.
TEST(ThreadPool, ShortLoopsInQuickSuccession) {
  ThreadPool pool(3);
  for (int round = 0; round < 20000; ++round) {
    auto sum = std::make_unique<std::atomic<int>>(0);
    const int tasks = 2 + round % 3;
    pool.ParallelFor(tasks, [&, owned = sum.get()](int64_t, int) { owned->fetch_add(1); });
    ASSERT_EQ(sum->load(), tasks);
  }
}

TEST(ThreadPool, CallersTakeTurns) {
  ThreadPool pool(3);
  int64_t unguarded = 0;  // only ever written by the loop whose turn it is, by task 0 alone
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        pool.ParallelFor(5, [&](int64_t task, int) {
          if (task == 0) ++unguarded;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(unguarded, 1200);
}

TEST(ThreadPool, AStoppedLoopBeginsNoMoreTasksNorDoesTheNext) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    std::atomic<int64_t> ran{0};
    {
      const std::function<bool()> after_ten = [&ran] { return ran.load() >= 10; };
      const ThreadPool::StopScope scope(&pool, after_ten);
      pool.ParallelFor(5, [&](int64_t, int) { ran.fetch_add(1); });
      EXPECT_FALSE(scope.stopped());
      // Workers wait for the caller to ask, so that they do not finish the loop before it has.
      pool.ParallelFor(1'000'000, [&](int64_t, int thread) {
        ran.fetch_add(1);
        while (thread > 0 && !pool.ShouldStop()) std::this_thread::yield();
      });
      EXPECT_TRUE(scope.stopped());
      EXPECT_TRUE(pool.ShouldStop());
      EXPECT_GE(ran.load(), 10);
      EXPECT_LT(ran.load(), 10 + 2 * threads);
      for (const int64_t tasks : {1, 100}) pool.ParallelFor(tasks, [](int64_t, int) { FAIL() << "was stopped"; });
    }
    // Without the scope all goes on as ever.
    ran = 0;
    const auto count = [&](int64_t, int) { ran.fetch_add(pool.ShouldStop() ? 0 : 1); };
    for (const int64_t tasks : {1, 100}) pool.ParallelFor(tasks, count);
    EXPECT_EQ(ran.load(), 101);
  }
}

TEST(ThreadPool, ATaskMayLeaveOutItsRest) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::atomic<int> asked{0};
    const std::function<bool()> third = [&asked] { return asked.fetch_add(1) >= 2; };
    const ThreadPool::StopScope scope(&pool, third);
    pool.ParallelFor(threads, [&](int64_t, int) {
      while (!pool.ShouldStop()) std::this_thread::yield();
    });
    EXPECT_TRUE(scope.stopped());
  }
}

// Preparation and tuning run loops beside requests that end early.
TEST(ThreadPool, AScopeStopsLoopsOfItsThreadAndPoolOnly) {
  ThreadPool pool(3), another(2);
  const std::function<bool()> at_once = [] { return true; };
  const ThreadPool::StopScope scope(&pool, at_once);
  std::atomic<int64_t> ran{0};
  const auto count = [&](int64_t, int) { ran.fetch_add(pool.ShouldStop() ? 0 : 1); };
  std::thread other([&] {
    for (int round = 0; round < 200; ++round) pool.ParallelFor(50, count);
  });
  for (int round = 0; round < 200; ++round) pool.ParallelFor(50, [](int64_t, int) { FAIL() << "was stopped"; });
  other.join();
  EXPECT_EQ(ran.load(), 200 * 50);
  another.ParallelFor(50, [&](int64_t, int) { ran.fetch_add(another.ShouldStop() ? 0 : 1); });
  EXPECT_EQ(ran.load(), 201 * 50);
}

TEST(ThreadPool, AScopeWithoutAPoolAsksNobody) {
  ThreadPool pool(2);
  const std::function<bool()> nobody;
  const ThreadPool::StopScope scope(nullptr, nobody);
  std::atomic<int> ran{0};
  pool.ParallelFor(7, [&](int64_t, int) { ran.fetch_add(1); });
  EXPECT_EQ(ran.load(), 7);
  EXPECT_FALSE(scope.stopped());
}

TEST(ThreadPool, MadeAndDestroyedAtOnce) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int64_t> done{0};
    {
      ThreadPool pool(4);
      if (round % 2 == 0) pool.ParallelFor(4, [&](int64_t, int) { ++done; });
    }
    EXPECT_EQ(done, round % 2 == 0 ? 4 : 0);
  }
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// Many threads on one budget: no snapshot is ever above it, and at the end nothing is left. The sanitizers look on.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/memory/memory_budget.h"

namespace vicinal {
namespace {

constexpr int64_t kBudget = 10'000;

// Reservations that may be evicted, as a cache of plans holds them.
class Cache {
 public:
  void Put(Reservation memory) {
    MutexLock lock(&mutex_);
    entries_.push_back(std::move(memory));
  }
  bool Evict(int64_t bytes) {
    std::vector<Reservation> dropped;  // released without the lock
    MutexLock lock(&mutex_);
    int64_t freed = 0;
    while (freed < bytes && !entries_.empty()) {
      freed += entries_.back().bytes();
      dropped.push_back(std::move(entries_.back()));
      entries_.pop_back();
    }
    return freed > 0;
  }

 private:
  Mutex mutex_;
  std::vector<Reservation> entries_ VICINAL_GUARDED_BY(mutex_);
};

void ExpectWithin(const MemoryUse& use) {
  EXPECT_LE(use.total(), kBudget);
  for (const int64_t bytes : {use.graphs, use.features, use.models, use.preparing, use.plans, use.receptive_fields,
                              use.tuning, use.requests, use.uploads}) {
    EXPECT_GE(bytes, 0);
  }
}

// One client: an upload that becomes a graph, requests, and plans that it leaves in the cache.
void Work(MemoryBudget& budget, Cache& cache, uint32_t seed) {
  std::mt19937 random(seed);
  const auto some = [&](int64_t most) { return static_cast<int64_t>(random() % most); };
  for (int round = 0; round < 2000; ++round) {
    StatusOr<Reservation> upload = budget.Reserve(Account::kUploads, 0, "an upload");
    ASSERT_TRUE(upload.ok());
    for (int chunk = 0; chunk < 4; ++chunk) upload->Grow(some(500), "a chunk").IgnoreError();
    StatusOr<Reservation> preparing =
        budget.Reserve(Account::kPreparing, upload->bytes() + some(3000), "a graph", {.consumed = &*upload});
    if (preparing.ok()) {
      EXPECT_EQ(upload->bytes(), 0);
      Reservation graph = preparing->Split(some(1000));
      graph.TransferTo(Account::kGraphs);
      preparing->Shrink(some(1000));
      graph.Merge(std::move(*preparing));
      StatusOr<Reservation> plan = budget.Reserve(Account::kRequests, some(2000), "a plan");
      if (plan.ok()) {
        plan->TransferTo(Account::kPlans);
        cache.Put(std::move(*plan));
      }
    }
    ExpectWithin(budget.Snapshot());
  }
}

TEST(MemoryBudgetStress, NeverHoldsMoreThanItHas) {
  MemoryBudget budget(kBudget);
  Cache cache;
  budget.AddEvictor(Account::kPlans, [&](int64_t bytes) { return cache.Evict(bytes); });
  std::atomic<bool> done{false};
  std::thread observer([&] {
    while (!done) ExpectWithin(budget.Snapshot());
  });
  std::vector<std::thread> clients;
  for (uint32_t seed = 0; seed < 6; ++seed) clients.emplace_back([&, seed] { Work(budget, cache, seed); });
  for (std::thread& client : clients) client.join();
  done = true;
  observer.join();
  EXPECT_EQ(budget.Snapshot().total(), budget.Snapshot().plans) << "only the cache holds memory";
  cache.Evict(kBudget);
  const MemoryUse end = budget.Snapshot();
  EXPECT_EQ(end.total(), 0);
  ExpectWithin(end);
}

// Of many that ask at the same moment for more than half, one gets it, in every round.
TEST(MemoryBudgetStress, OfManyThatFitOnceOneGetsIt) {
  constexpr int kThreads = 4, kRounds = 200;
  MemoryBudget budget(kBudget);
  std::barrier<> all(kThreads);
  std::atomic<int> granted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        all.arrive_and_wait();
        const StatusOr<Reservation> memory = budget.Reserve(Account::kPreparing, kBudget / 2 + 1, "a graph");
        granted += memory.ok() ? 1 : 0;
        all.arrive_and_wait();  // nobody releases before all have asked
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted, kRounds);
  EXPECT_EQ(budget.Snapshot().total(), 0);
}

}  // namespace
}  // namespace vicinal

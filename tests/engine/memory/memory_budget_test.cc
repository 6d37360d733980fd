// SPDX-License-Identifier: Apache-2.0
// Reservations: what fits, what is refused and how, transfers, and the end of each.
#include "engine/memory/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"

namespace vicinal {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

void ExpectRefused(const Status& status, StatusCode code, const std::string& reason, bool retry) {
  ASSERT_EQ(status.code(), code) << status;
  ASSERT_TRUE(DetailOf(status).has_value()) << status;
  EXPECT_EQ(DetailOf(status)->reason, reason);
  EXPECT_EQ(DetailOf(status)->retry_after.has_value(), retry) << status;
}

TEST(MemoryBudget, AnExactFitFitsAndOneByteMoreDoesNot) {
  MemoryBudget budget(100);
  auto all = budget.Reserve(Account::kRequests, 100, "all");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(budget.Reserve(Account::kRequests, 0, "nothing").ok());
  ExpectRefused(budget.Reserve(Account::kRequests, 1, "more").status(), StatusCode::kResourceExhausted, "BUDGET_FULL",
                true);
  ExpectRefused(budget.Reserve(Account::kRequests, 101, "too much").status(), StatusCode::kFailedPrecondition,
                "OVER_BUDGET", false);
  EXPECT_EQ(budget.Snapshot().total(), 100) << "what is refused counts nothing";
  all->Release();
  all->Release();
  EXPECT_EQ(budget.Snapshot().total(), 0) << "released once";
}

TEST(MemoryBudget, WithoutABoundItCountsAllTheSame) {
  for (const int64_t none : {int64_t{0}, int64_t{-1}}) {
    MemoryBudget budget(none);
    const auto huge = budget.Reserve(Account::kGraphs, kMost - 1, "a graph");
    ASSERT_TRUE(huge.ok());
    EXPECT_EQ(budget.Snapshot().graphs, kMost - 1);
    EXPECT_EQ(budget.Snapshot().budget, 0);
    EXPECT_TRUE(budget.Reserve(Account::kModels, 1, "a model").ok());
    EXPECT_FALSE(budget.Reserve(Account::kModels, 2, "a model").ok()) << "the sum would overflow";
  }
}

TEST(MemoryBudget, NumbersThatCannotBe) {
  MemoryBudget budget(100);
  EXPECT_EQ(budget.Reserve(Account::kRequests, -1, "x").status().code(), StatusCode::kInternal);
  EXPECT_EQ(budget.Check(-1, "x").code(), StatusCode::kInternal);
  auto some = *budget.Reserve(Account::kRequests, 10, "x");
  EXPECT_EQ(some.Grow(-1, "x").code(), StatusCode::kInternal);
  ExpectRefused(some.Grow(kMost, "x"), StatusCode::kFailedPrecondition, "OVER_BUDGET", false);
  ExpectRefused(budget.Check(kMost, "x", {.own_bytes = kMost}), StatusCode::kFailedPrecondition, "OVER_BUDGET", false);
  EXPECT_EQ(some.bytes(), 10);
  Reservation empty;
  EXPECT_EQ(empty.Grow(1, "x").code(), StatusCode::kInternal);
  EXPECT_EQ(budget.Snapshot().total(), 10);
}

TEST(MemoryBudget, CheckReservesNothing) {
  MemoryBudget budget(100);
  EXPECT_TRUE(budget.Check(100, "x").ok());
  EXPECT_TRUE(budget.Check(100, "x").ok());
  const auto held = budget.Reserve(Account::kGraphs, 1, "g");
  ExpectRefused(budget.Check(100, "x"), StatusCode::kResourceExhausted, "BUDGET_FULL", false);
}

TEST(Reservation, GrowsAndShrinks) {
  MemoryBudget budget(100);
  auto memory = *budget.Reserve(Account::kUploads, 0, "an upload");
  EXPECT_TRUE(memory) << "of no bytes, but of a budget";
  ASSERT_TRUE(memory.Grow(60, "the upload").ok());
  ASSERT_TRUE(memory.Grow(40, "the upload").ok());
  EXPECT_EQ(budget.Snapshot().uploads, 100);
  const Status over = memory.Grow(1, "the upload");
  ExpectRefused(over, StatusCode::kFailedPrecondition, "OVER_BUDGET", false);
  EXPECT_THAT(std::string(over.message()), HasSubstr("the upload needs up to 101 bytes")) << "all of it, not the step";
  memory.Shrink(100);
  memory.Shrink(200);
  EXPECT_EQ(memory.bytes(), 100) << "Shrink never grows";
  memory.Shrink(30);
  EXPECT_EQ(budget.Snapshot().uploads, 30);
  memory.Shrink(0);
  EXPECT_EQ(budget.Snapshot().uploads, 0);
  EXPECT_TRUE(memory.Grow(5, "the upload").ok()) << "it still belongs to the budget";
  memory.Shrink(-3);
  EXPECT_EQ(memory.bytes(), 0);
}

TEST(Reservation, MovesItsBytes) {
  MemoryBudget budget(100);
  auto first = *budget.Reserve(Account::kModels, 10, "m");
  Reservation second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(first.bytes(), 0);
  first.Release();
  first.TransferTo(Account::kGraphs);
  EXPECT_EQ(budget.Snapshot().models, 10);
  auto third = *budget.Reserve(Account::kModels, 5, "m");
  third = std::move(second);
  EXPECT_EQ(budget.Snapshot().models, 10) << "what it held before is released";
  Reservation& same = third;
  third = std::move(same);
  EXPECT_EQ(third.bytes(), 10);
}

TEST(Reservation, SplitsMergesAndTransfers) {
  MemoryBudget budget(100);
  auto whole = *budget.Reserve(Account::kPreparing, 90, "g");
  Reservation part = whole.Split(30);
  part.TransferTo(Account::kGraphs);
  EXPECT_EQ(budget.Snapshot().preparing, 60);
  EXPECT_EQ(budget.Snapshot().graphs, 30);
  Reservation rest = whole.Split(1000);
  EXPECT_EQ(rest.bytes(), 60) << "no more than there is";
  EXPECT_EQ(whole.Split(-1).bytes(), 0);
  part.Merge(std::move(rest));
  EXPECT_EQ(part.bytes(), 90);
  EXPECT_EQ(budget.Snapshot().graphs, 90);
  Reservation empty;
  empty.Merge(Reservation());
  EXPECT_FALSE(empty);
  empty.Merge(std::move(part));
  EXPECT_EQ(empty.bytes(), 90);
  empty.Merge(Reservation());
  EXPECT_EQ(budget.Snapshot().total(), 90);
}

TEST(Reservation, OutlivesItsBudget) {
  auto budget = std::make_optional<MemoryBudget>(100);
  int evicted = 0;
  budget->AddEvictor(Account::kPlans, [&](int64_t) { return ++evicted < 3; });
  auto plans = *budget->Reserve(Account::kPlans, 60, "p");
  auto memory = *budget->Reserve(Account::kRequests, 40, "r");
  budget.reset();
  EXPECT_FALSE(memory.Grow(1, "r").ok());
  EXPECT_EQ(evicted, 0) << "evictors may be gone with what they evict from";
  plans.Release();
  EXPECT_TRUE(memory.Grow(60, "r").ok());
}

TEST(Reservation, OfOneIsConsumedByAnother) {
  MemoryBudget budget(100);
  auto upload = *budget.Reserve(Account::kUploads, 40, "u");
  auto other = *budget.Reserve(Account::kGraphs, 20, "g");
  const auto refused = budget.Reserve(Account::kPreparing, 81, "p", {.consumed = &upload});
  ExpectRefused(refused.status(), StatusCode::kResourceExhausted, "BUDGET_FULL", false);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("1 bytes more than is free"));
  EXPECT_EQ(upload.bytes(), 40) << "as it was";
  auto preparing = budget.Reserve(Account::kPreparing, 80, "p", {.consumed = &upload});
  ASSERT_TRUE(preparing.ok()) << preparing.status();
  EXPECT_FALSE(upload);
  EXPECT_EQ(budget.Snapshot().uploads, 0);
  EXPECT_EQ(budget.Snapshot().preparing, 80);
  auto smaller = budget.Reserve(Account::kGraphs, 10, "p", {.consumed = &*preparing});
  ASSERT_TRUE(smaller.ok());
  EXPECT_EQ(budget.Snapshot().total(), 30);
  Reservation none;
  EXPECT_TRUE(budget.Reserve(Account::kGraphs, 70, "p", {.consumed = &none}).ok());
}

TEST(Reservation, WaitingDoesNotFreeTheCallersOwnBytes) {
  MemoryBudget budget(100);
  const auto own = *budget.Reserve(Account::kUploads, 40, "u");
  const auto graph = *budget.Reserve(Account::kGraphs, 10, "g");
  ExpectRefused(budget.Check(60, "f"), StatusCode::kResourceExhausted, "BUDGET_FULL", true);
  ExpectRefused(budget.Check(60, "f", {.own_bytes = 40}), StatusCode::kResourceExhausted, "BUDGET_FULL", false);
  ExpectRefused(budget.Check(61, "f", {.own_bytes = 40}), StatusCode::kFailedPrecondition, "OVER_BUDGET", false);
}

TEST(Reservation, ObjectsHoldThem) {
  MemoryBudget budget(0);
  struct Witness {
    MemoryBudget* budget;
    int64_t* seen;
    ~Witness() { *seen = budget->Snapshot().features; }
  };
  int64_t seen = -1;
  std::shared_ptr<Witness> witness(new Witness{&budget, &seen});
  auto held = WithReservation(std::move(witness), *budget.Reserve(Account::kFeatures, 7, "f"));
  auto copy = held;
  held.reset();
  EXPECT_EQ(budget.Snapshot().features, 7);
  copy.reset();
  EXPECT_EQ(seen, 7) << "the object goes first";
  EXPECT_EQ(budget.Snapshot().features, 0);
}

// --- evictors ---

TEST(MemoryBudgetEvictors, AreAskedInOrderAndOnlyWhereTheyMaySuffice) {
  MemoryBudget budget(100);
  std::vector<std::string> calls;
  Reservation fields, plans;
  budget.AddEvictor(Account::kReceptiveFields, [&](int64_t bytes) {
    calls.push_back("fields " + std::to_string(bytes));
    const bool any = fields.bytes() > 0;
    fields.Release();
    return any;
  });
  budget.AddEvictor(Account::kPlans, [&](int64_t bytes) {
    calls.push_back("plans " + std::to_string(bytes));
    const bool any = plans.bytes() > 0;
    plans.Shrink(plans.bytes() - bytes);
    return any;
  });
  fields = *budget.Reserve(Account::kReceptiveFields, 20, "f");
  plans = *budget.Reserve(Account::kPlans, 30, "p");
  auto graph = *budget.Reserve(Account::kGraphs, 50, "g");
  EXPECT_FALSE(budget.Check(51, "x").ok());
  EXPECT_TRUE(calls.empty()) << "even both would not suffice";
  EXPECT_TRUE(budget.Check(15, "x").ok());
  EXPECT_EQ(calls, (std::vector<std::string>{"fields 15"}));
  EXPECT_EQ(plans.bytes(), 30);
  calls.clear();
  EXPECT_TRUE(budget.Reserve(Account::kRequests, 45, "x").ok());
  EXPECT_EQ(calls, (std::vector<std::string>{"fields 25", "plans 25"}));
  EXPECT_EQ(plans.bytes(), 5);
}

TEST(MemoryBudgetEvictors, ThatFreeTooLittleEndInARefusal) {
  MemoryBudget budget(100);
  auto plans = *budget.Reserve(Account::kPlans, 90, "p");
  int calls = 0;
  budget.AddEvictor(Account::kPlans, [&](int64_t) {
    if (++calls > 2) return false;  // the rest runs
    plans.Shrink(plans.bytes() - 10);
    return true;
  });
  ExpectRefused(budget.Reserve(Account::kRequests, 50, "x").status(), StatusCode::kResourceExhausted, "BUDGET_FULL",
                true);
  EXPECT_EQ(calls, 3) << "asked as long as it frees anything";
  EXPECT_EQ(budget.Snapshot().total(), 70);
  EXPECT_TRUE(budget.Reserve(Account::kRequests, 30, "x").ok());
}

TEST(MemoryBudgetEvictors, ThatReserveAreNotCalledAgain) {
  MemoryBudget budget(100);
  auto plans = *budget.Reserve(Account::kPlans, 100, "p");
  int calls = 0;
  Status inner;
  budget.AddEvictor(Account::kPlans, [&](int64_t) {
    ++calls;
    inner = budget.Reserve(Account::kRequests, 10, "inner").status();
    plans.Release();
    return true;
  });
  EXPECT_TRUE(budget.Reserve(Account::kRequests, 10, "outer").ok());
  EXPECT_EQ(calls, 1);
  ExpectRefused(inner, StatusCode::kResourceExhausted, "BUDGET_FULL", true);
}

}  // namespace
}  // namespace vicinal

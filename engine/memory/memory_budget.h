// SPDX-License-Identifier: Apache-2.0
// The one budget of bytes over graphs, features, models and plans. Work is admitted by an upper bound before it starts;
// what is only kept to be used again gives way: the room of receptive fields, then cached plans.
#ifndef VICINAL_ENGINE_MEMORY_MEMORY_BUDGET_H_
#define VICINAL_ENGINE_MEMORY_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/base/budget_error.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/memory/memory_account.h"

namespace vicinal {

// What the budget asks of those who hold its memory. Called on any thread that asks for memory, and must be
// thread-safe.
struct MemoryHolders {
  // Bytes of stores and cached plans. Null: none. The budget itself adds reserved bytes and open uploads.
  std::function<HeldBytes()> held;
  // Bytes of the same budget that others hold, such as open uploads. Null: none.
  std::function<int64_t()> uploads;
  // Frees reserved bytes that can be spared at no cost. Null: none can.
  std::function<void()> give_way;
  // Evicts cached plans of about `bytes`; returns the bytes freed, 0 when none are left. Null: none are cached.
  std::function<int64_t(int64_t bytes)> evict_plans;
};

// Thread-safe.
class MemoryBudget {
 public:
  // `budget_bytes` 0: no bound.
  explicit MemoryBudget(int64_t budget_bytes, MemoryHolders holders = {})
      : budget_bytes_(budget_bytes), holders_(std::move(holders)) {}

  // FAILED_PRECONDITION (OVER_BUDGET) when `bytes` for `what` could never fit, RESOURCE_EXHAUSTED (BUDGET_FULL) when
  // they do not fit now, even with all dropped that gives way. Reserves nothing.
  Status Admit(int64_t bytes, std::string_view what) const;
  // As Admit, for what is made of bytes that others hold until it is made: theirs are not counted.
  // `replace`: it will stand beside what it replaces, which the refusal then says.
  Status AdmitMadeOfOthers(int64_t bytes, std::string_view what, bool replace = false) const {
    return AdmitBeside(0, bytes, what, replace);
  }

  // As Admit, and counts `bytes` until they are released: memory that outlives the request that needed it first.
  Status Reserve(int64_t bytes, std::string_view what);
  void Release(int64_t bytes) { reserved_bytes_->fetch_sub(bytes, std::memory_order_relaxed); }
  int64_t reserved_bytes() const { return reserved_bytes_->load(std::memory_order_relaxed); }
  // As Reserve; released when the last copy of what is returned goes, which may be after the budget has gone.
  StatusOr<std::shared_ptr<const void>> Hold(int64_t bytes, std::string_view what);
  // As AdmitMadeOfOthers and Hold: while it is being made.
  StatusOr<std::shared_ptr<const void>> HoldMadeOfOthers(int64_t bytes, std::string_view what, bool replace = false);
  // By whom the budget is held, with so many bytes of uploads.
  HeldBytes Held(int64_t uploads) const;

 private:
  Status AdmitBeside(int64_t others, int64_t bytes, std::string_view what, bool replace) const;
  // Of bytes that are reserved: releases them with its last copy.
  std::shared_ptr<const void> HolderOf(int64_t bytes) const;

  const int64_t budget_bytes_;
  const MemoryHolders holders_;
  Mutex reserving_;  // of two that reserve what fits once, one is refused
  const std::shared_ptr<std::atomic<int64_t>> reserved_bytes_ = std::make_shared<std::atomic<int64_t>>(0);
};

// Counts memory that stays, for one purpose.
class BudgetAccount final : public MemoryAccount {
 public:
  // `budget` must outlive it; `what` names the purpose in refusals, and is not owned.
  BudgetAccount(MemoryBudget* budget, std::string_view what) : budget_(*budget), what_(what) {}
  Status Reserve(int64_t bytes) override { return budget_.Reserve(bytes, what_); }
  void Release(int64_t bytes) override { budget_.Release(bytes); }

 private:
  MemoryBudget& budget_;
  const std::string_view what_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_MEMORY_MEMORY_BUDGET_H_

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
#include "engine/device/grow_only.h"
#include "engine/execute/plan_cache.h"
#include "engine/store/graph_store.h"
#include "engine/store/model_store.h"

namespace vicinal {

// Thread-safe. What it looks at must outlive it.
class MemoryBudget {
 public:
  // `budget_bytes` 0: no bound. `other_bytes` as EngineOptions has it. `give_way` frees reserved bytes that can be
  // spared and may be empty; it is called on any thread, also by whoever reserves.
  MemoryBudget(int64_t budget_bytes, const GraphStore* graphs, const ModelStore* models, PlanCache* plans,
               std::function<int64_t()> other_bytes = {}, std::function<void()> give_way = {})
      : budget_bytes_(budget_bytes),
        graphs_(*graphs),
        models_(*models),
        plans_(*plans),
        other_bytes_(std::move(other_bytes)),
        give_way_(std::move(give_way)) {}

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
  const GraphStore& graphs_;
  const ModelStore& models_;
  PlanCache& plans_;
  const std::function<int64_t()> other_bytes_;
  const std::function<void()> give_way_;
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

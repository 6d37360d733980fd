// SPDX-License-Identifier: Apache-2.0
// The one budget of bytes over graphs, features, models and plans. Work is admitted by an upper bound before it starts;
// cached plans give way.
#ifndef VICINAL_ENGINE_MEMORY_BUDGET_H_
#define VICINAL_ENGINE_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/base/status.h"
#include "engine/execute/plan_cache.h"
#include "engine/store/graph_store.h"
#include "engine/store/model_store.h"

namespace vicinal {

// Thread-safe. What it looks at must outlive it.
class MemoryBudget {
 public:
  // `budget_bytes` 0: no bound.
  MemoryBudget(int64_t budget_bytes, const GraphStore* graphs, const ModelStore* models, PlanCache* plans)
      : budget_bytes_(budget_bytes), graphs_(*graphs), models_(*models), plans_(*plans) {}

  // FAILED_PRECONDITION (OVER_BUDGET) when `bytes` for `what` could never fit, RESOURCE_EXHAUSTED (BUDGET_FULL) when
  // they do not fit now, even with cached plans dropped. Reserves nothing.
  Status Admit(int64_t bytes, std::string_view what) const;

  // As Admit, and counts `bytes` until they are released: memory that outlives the request that needed it first.
  Status Reserve(int64_t bytes, std::string_view what);
  void Release(int64_t bytes) { reserved_bytes_->fetch_sub(bytes, std::memory_order_relaxed); }
  int64_t reserved_bytes() const { return reserved_bytes_->load(std::memory_order_relaxed); }
  // As Reserve; released when the last copy of what is returned goes, which may be after the budget has gone.
  StatusOr<std::shared_ptr<const void>> Hold(int64_t bytes, std::string_view what);

 private:
  int64_t Used() const {
    return graphs_.graph_bytes() + graphs_.feature_bytes() + models_.size_bytes() + plans_.size_bytes() +
           reserved_bytes();
  }

  const int64_t budget_bytes_;
  const GraphStore& graphs_;
  const ModelStore& models_;
  PlanCache& plans_;
  const std::shared_ptr<std::atomic<int64_t>> reserved_bytes_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_MEMORY_BUDGET_H_

// SPDX-License-Identifier: Apache-2.0
// Memory of one plan while it is built.
#ifndef VICINAL_ENGINE_EXECUTE_PLAN_MEMORY_H_
#define VICINAL_ENGINE_EXECUTE_PLAN_MEMORY_H_

#include <cstdint>
#include <memory>

#include "engine/memory/memory_budget.h"
#include "engine/plan/plan.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

// Reserves what building takes for Account::kRequests, and meanwhile what must fit beside the plan. What the graph
// derives meanwhile moves to the graph's own reservation, also where building fails; the rest is released at the end.
// One thread at a time.
class PlanMemory {
 public:
  // Both must outlive it. `evict`: as ReserveOptions::evict. `beside`: bytes, such as the answer's, that must fit
  // beside the plan; so it is a smaller one if the largest would leave no room for them.
  PlanMemory(MemoryBudget* budget, const PreparedGraph* graph, bool evict = true, int64_t beside = 0)
      : budget_(*budget), graph_(*graph), evict_(evict), beside_(beside) {}
  ~PlanMemory() { graph_.SettleReservation(&memory_); }
  PlanMemory(const PlanMemory&) = delete;
  PlanMemory& operator=(const PlanMemory&) = delete;

  // Reserves `bytes` more; for Plan::Build. Errors: MemoryBudget's.
  Status Admit(int64_t bytes);
  // `plan`, which holds its bytes for Account::kPlans until its last copy goes.
  std::shared_ptr<Plan> Keep(std::shared_ptr<Plan> plan);

 private:
  MemoryBudget& budget_;
  const PreparedGraph& graph_;
  const bool evict_;
  const int64_t beside_;
  Reservation memory_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_PLAN_MEMORY_H_

// SPDX-License-Identifier: Apache-2.0
// Runs requests: finds or builds the plan of a request, runs it, and brings the rows into the client's ids.
#ifndef VICINAL_ENGINE_EXECUTE_PLAN_RUNNER_H_
#define VICINAL_ENGINE_EXECUTE_PLAN_RUNNER_H_

#include <functional>
#include <memory>

#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/execute/plan_cache.h"
#include "engine/execute/receptive_field_memory.h"
#include "engine/execute/request_runner.h"
#include "engine/kernels/registry.h"
#include "engine/memory/memory_budget.h"
#include "engine/plan/plan.h"

namespace vicinal {

class PlanRunner final : public RequestRunner {
 public:
  struct Parts {
    Device* device = nullptr;
    const KernelRegistry* registry = nullptr;
    PlanCache* plans = nullptr;
    MemoryBudget* budget = nullptr;
    ReceptiveFieldMemory* receptive_field_memory = nullptr;  // used by Run only
    const Clock* clock = nullptr;
    StatsSink* stats = nullptr;
    // Told of each graph that a plan was built on and kept. May be empty; must be quick.
    std::function<void(const std::shared_ptr<const PreparedGraph>& graph)> on_plan;
  };
  // All parts must outlive the runner.
  explicit PlanRunner(const Parts& parts) : parts_(parts) {}

  StatusOr<InferenceResult> Run(const QueuedRequest& request, DeviceContext& context) override;

  // The plan of a request, from the cache or newly built and admitted, unless the request's limits end that.
  // `num_threads`: the most that a context which runs it has. Runs nothing. On any thread.
  StatusOr<std::shared_ptr<Plan>> PlanFor(const QueuedRequest& queued, int num_threads);

 private:
  // Whether somebody still waits for `request`, which must outlive what is returned.
  StopCheck StopOf(const QueuedRequest& request) const;

  const Parts parts_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_PLAN_RUNNER_H_

// SPDX-License-Identifier: Apache-2.0
// The request spine: a resolved request waits for the executor, finds or makes its plan, runs, and its rows go back in
// the client's ids. Plans are made and run on the executor's thread, so that each is run by one caller at a time.
#ifndef VICINAL_ENGINE_EXECUTE_REQUEST_RUNNER_H_
#define VICINAL_ENGINE_EXECUTE_REQUEST_RUNNER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/api/requests.h"
#include "engine/execute/executor.h"
#include "engine/execute/plan_cache.h"
#include "engine/execute/receptive_field_memory.h"
#include "engine/execute/run_for_nodes.h"
#include "engine/kernels/registry.h"
#include "engine/memory/memory_budget.h"
#include "engine/plan/plan.h"

namespace vicinal {

// A request with every name resolved and everything checked that can be without a plan. Handles keep versions alive.
struct InferenceJob {
  PlanRequest plan;
  std::string model_name;
  std::shared_ptr<const FeatureMatrix> features;
  bool all_rows = true;
  std::vector<int64_t> ids;  // unless all_rows
  int64_t width = 0;         // of the output
  ReceptiveField receptive_field = ReceptiveField::kAuto;
  ServedBy served_by;
  WorkLimits limits;
  bool keep_plan = true;  // false: the graph came with the request
};

// Thread-safe.
class RequestRunner {
 public:
  struct Parts {
    Device* device = nullptr;
    const KernelRegistry* registry = nullptr;
    PlanCache* plans = nullptr;
    MemoryBudget* budget = nullptr;
    ReceptiveFieldMemory* receptive_field_memory = nullptr;  // used on the executor's thread
    const Clock* clock = nullptr;
    StatsSink* stats = nullptr;
    int64_t max_queue = 1024;
    // Told of each graph that a plan was built on and kept. May be empty; must be quick.
    std::function<void(const std::shared_ptr<const PreparedGraph>& graph)> on_plan;
  };
  explicit RequestRunner(const Parts& parts);

  // As Engine::Submit.
  Status Submit(InferenceJob job, InferenceCallback done);
  // Submits and blocks until it was run or refused.
  StatusOr<InferenceResult> RunAndWait(InferenceJob job);
  // The plan of a job, from the cache or newly built and admitted, unless the job's limits end that. Runs nothing; on
  // any thread.
  StatusOr<std::shared_ptr<Plan>> PlanFor(const InferenceJob& job);

  Executor& executor() { return executor_; }
  const Executor& executor() const { return executor_; }

 private:
  // Whether somebody still waits for `job`, which must outlive what is returned.
  StopCheck StopOf(const InferenceJob& job) const;
  StatusOr<InferenceResult> Run(const InferenceJob& job, MonotonicTime submitted, DeviceContext& context);

  const Parts parts_;
  Executor executor_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_REQUEST_RUNNER_H_

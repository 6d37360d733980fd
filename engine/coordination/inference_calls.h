// SPDX-License-Identifier: Apache-2.0
// A request from the call to the executor's queue: its graph is loaded if it must be, names are resolved, and kept
// answers are looked up. All but loading happens on the caller's thread.
#ifndef VICINAL_ENGINE_COORDINATION_INFERENCE_CALLS_H_
#define VICINAL_ENGINE_COORDINATION_INFERENCE_CALLS_H_

#include "engine/api/requests.h"
#include "engine/api/resources.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/coordination/graph_tiers.h"
#include "engine/device/device.h"
#include "engine/execute/answer_keeper.h"
#include "engine/execute/executor.h"
#include "engine/execute/plan_runner.h"
#include "engine/execute/resolve.h"
#include "engine/kernels/registry.h"
#include "engine/store/graph_store.h"

namespace vicinal {

// Thread-safe.
class InferenceCalls {
 public:
  // All must outlive the object, and the object the loads that `tiers` begins.
  struct Parts {
    const GraphStore* graphs = nullptr;
    const GraphTiers* tiers = nullptr;
    const RequestResolver* resolver = nullptr;
    AnswerKeeper* keeper = nullptr;
    Executor* executor = nullptr;
    PlanRunner* runner = nullptr;
    const KernelRegistry* registry = nullptr;
    const Device* device = nullptr;
    const Clock* clock = nullptr;
  };
  explicit InferenceCalls(const Parts& parts) : parts_(parts) {}

  // As the methods of Engine.
  Status Submit(InferenceRequest request, InferenceCallback done) const;
  Status SubmitBatch(GraphBatchRequest request, InferenceCallback done) const;
  StatusOr<Explanation> Explain(const InferenceRequest& request) const;

 private:
  // Of a graph that need not be loaded.
  Status SubmitResident(InferenceRequest request, InferenceCallback done) const;

  const Parts parts_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_COORDINATION_INFERENCE_CALLS_H_

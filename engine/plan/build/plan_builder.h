// SPDX-License-Identifier: Apache-2.0
// Turns a request into a plan: rewrites the model, lays the program out (once to count bytes, if somebody has to admit
// them, then for good), and prepares runs over receptive fields. What comes out holds no pointer into the builder.
#ifndef VICINAL_ENGINE_PLAN_BUILD_PLAN_BUILDER_H_
#define VICINAL_ENGINE_PLAN_BUILD_PLAN_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "engine/plan/build/build_context.h"
#include "engine/plan/build/built_plan.h"
#include "engine/plan/build/plan_layout.h"

namespace vicinal::internal {

class PlanBuilder {
 public:
  // All must outlive it. `stop` may be empty.
  PlanBuilder(const PlanRequest& request, const KernelRegistry& registry, Device& device, const StopCheck& stop)
      : context_(request, registry, device, stop) {}

  // As Plan::Build. Called once.
  StatusOr<BuiltPlan> Build(const PlanAdmission& admit);

 private:
  Status CheckRequest() const;
  // Makes the program that is laid out.
  Status Rewrite();
  // Host memory that packing takes beside what is kept, at most.
  int64_t PackingBytes() const;
  // What a plan of the program would hold.
  StatusOr<int64_t> CountBytes();
  // Has the bytes admitted, if asked to, and takes all memory but the arena; again whenever a setting of the tuning
  // table turns out to be unfit.
  Status LayOut(const PlanAdmission& admit);
  void MakeField(BuiltPlan* plan);
  // Why there are no receptive fields with this device or graph; empty: there may be.
  std::string WhyNoField(BuiltPlan* plan);

  BuildContext context_;
  std::optional<DeviceAllocator> allocator_;
  std::optional<PlanLayout> layout_;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_PLAN_BUILDER_H_

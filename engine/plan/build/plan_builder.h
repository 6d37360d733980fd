// SPDX-License-Identifier: Apache-2.0
// Builds a plan from a request: rewrites the model, lays the program out (first to count bytes, if they must be
// admitted, then to allocate), and prepares runs over receptive fields. The result has no pointers into the builder.
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

  // Like Plan::Build. Called once.
  StatusOr<BuiltPlan> Build(const PlanAdmission& admit);

 private:
  Status CheckRequest() const;
  // Rewrites the model to a program.
  Status Rewrite();
  // Upper bound of the temporary host memory of packing.
  int64_t PackingBytes() const;
  // Bytes of a plan of the program, without and with tiles.
  struct PlanBytes {
    int64_t whole = 0;
    int64_t tiled = 0;
  };
  StatusOr<PlanBytes> CountBytes();
  // Asks for the whole plan's bytes, and where they are not there for those of the plan in tiles; sets tiled_.
  Status Admit(const PlanBytes& bytes, const PlanAdmission& admit);
  // Calls `admit`, if set, and allocates all memory but the arena; repeated whenever a setting of the tuning table
  // cannot be used.
  Status LayOut(const PlanAdmission& admit);
  void MakeField(BuiltPlan* plan);
  // Why this device or graph supports no receptive fields; empty: it may.
  std::string WhyNoField(BuiltPlan* plan);

  BuildContext context_;
  std::optional<DeviceAllocator> allocator_;
  std::optional<PlanLayout> layout_;
  bool tiled_ = false;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_PLAN_BUILDER_H_

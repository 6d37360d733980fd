// SPDX-License-Identifier: Apache-2.0
// Switches a plan's launches from the full graph to a receptive field and back: the same kernels, weights and scratch,
// with shorter views. A field uses the first rows of each value in the plan's arena; its other inputs are in
// receptive_field_inputs.h.
#ifndef VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_SUBSET_RUN_H_
#define VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_SUBSET_RUN_H_

#include <vector>

#include "engine/plan/build/built_plan.h"
#include "engine/plan/receptive_field/receptive_field_inputs.h"

namespace vicinal::internal {

class SubsetRun {
 public:
  // `plan` is as built, with `plan->field` made, and outlives this.
  // Settings that were tuned for the full graph's sources (tiles of them) do not suit fields: there `registry`'s first
  // kernel runs, which gives the same bits (KernelConfig).
  SubsetRun(BuiltPlan* plan, const KernelRegistry& registry);

  // Binds the launches to the field that `work->finder` found last, and gathers the needed rows of `features` and of
  // per-node numbers into `work`. `replaced` (null: none; host memory alone) are read in place of rows of `features`.
  // Allocates nothing once `work` is large enough. Errors of `work`'s account and of the device; the launches are then
  // unchanged.
  Status Bind(DeviceContext& context, const FeatureMatrix& features, const ReplacedRows* replaced,
              ReceptiveFieldWorkspace* work);
  // Binds them to the full graph again, except for the features.
  void Unbind();
  bool bound() const { return bound_; }

 private:
  using Arguments = decltype(Launch::bound);

  BuiltPlan& plan_;
  std::vector<Arguments> full_;                                    // of each launch, original arguments
  std::vector<const RegisteredKernel<AggregateKernel>*> untuned_;  // for tuned aggregations; otherwise null
  ReceptiveFieldInputs inputs_;
  bool bound_ = false;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_SUBSET_RUN_H_

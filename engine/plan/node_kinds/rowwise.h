// SPDX-License-Identifier: Apache-2.0
// Shared by the kinds whose operation is rowwise.
#ifndef VICINAL_ENGINE_PLAN_NODE_KINDS_ROWWISE_H_
#define VICINAL_ENGINE_PLAN_NODE_KINDS_ROWWISE_H_

#include "engine/kernels/operations.h"
#include "engine/plan/build/step_binder.h"
#include "engine/plan/node_kinds/node_traits.h"
#include "engine/plan/node_kinds/step_description.h"

namespace vicinal::internal {

// Chooses the kernel for `kind`, and fills in scale, shift and eps. The caller sets the inputs.
StatusOr<RowwiseArgs*> ChooseRowwise(StepBinder* step, RowwiseKind kind);

// NodeTraits::bind for a rowwise kind with the dense input `a`.
template <RowwiseKind kKind>
Status BindRowwise(StepBinder* step) {
  VICINAL_ASSIGN_OR_RETURN(RowwiseArgs* const args, ChooseRowwise(step, kKind));
  step->Input(step->node().inputs[0], &args->a);
  return OkStatus();
}

// The same with inputs `a` and `b`.
template <RowwiseKind kKind>
Status BindRowwiseOfTwo(StepBinder* step) {
  VICINAL_ASSIGN_OR_RETURN(RowwiseArgs* const args, ChooseRowwise(step, kKind));
  step->Input(step->node().inputs[0], &args->a);
  step->Input(step->node().inputs[1], &args->b);
  return OkStatus();
}

// The same as BindRowwise for kinds that work on each graph of a batch.
template <RowwiseKind kKind>
Status BindPerGraph(StepBinder* step) {
  VICINAL_ASSIGN_OR_RETURN(RowwiseArgs* const args, ChooseRowwise(step, kKind));
  step->Input(step->node().inputs[0], &args->a);
  VICINAL_ASSIGN_OR_RETURN(args->segments, step->Segments());
  args->num_segments = step->num_graphs();
  args->batched = !step->request().graph->parts().segments.empty();
  return OkStatus();
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_NODE_KINDS_ROWWISE_H_

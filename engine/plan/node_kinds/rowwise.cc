// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/node_kinds/rowwise.h"

namespace vicinal::internal {

StatusOr<RowwiseArgs*> ChooseRowwise(StepBinder* step, RowwiseKind kind) {
  const Node& node = step->node();
  const RowwiseProblem problem = {kind, node.reduce, step->RowsOf(node.output), step->WidthOf(node.output),
                                  step->program().values[node.output].storage};
  VICINAL_ASSIGN_OR_RETURN(auto* bound, step->Choose(step->registry().rowwise, problem));
  VICINAL_ASSIGN_OR_RETURN(bound->args.scale, step->Copy(node.scale));
  VICINAL_ASSIGN_OR_RETURN(bound->args.shift, step->Copy(node.shift));
  bound->args.eps = static_cast<float>(node.eps);
  return &bound->args;
}

}  // namespace vicinal::internal

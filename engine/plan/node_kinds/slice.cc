// SPDX-License-Identifier: Apache-2.0
// Some columns of a value, copied.
#include "absl/strings/str_cat.h"
#include "engine/plan/node_kinds/rowwise.h"

namespace vicinal::internal {
namespace {

Status BindSlice(StepBinder* step) {
  const Node& node = step->node();
  VICINAL_ASSIGN_OR_RETURN(RowwiseArgs* const args, ChooseRowwise(step, RowwiseKind::kAdd));
  step->InputColumns(node.inputs[0], node.first_column, step->WidthOf(node.output), &args->a);
  return OkStatus();
}

void DescribeSlice(StepDescription* step) {
  const Node& node = step->node();
  *step->formula() = absl::StrCat("columns [", node.first_column, ", ", node.first_column + step->out_width(), ") of ",
                                  step->Shape(node.inputs[0]));
  step->SetCost(step->Elements(node.output) * StepDescription::kFloatBytes, 0);
}

}  // namespace

constinit const NodeTraits kSliceTraits = {
    .kind = NodeKind::kSlice,
    .name = "slice",
    .fuses_epilogue = true,
    .describe = DescribeSlice,
    .bind = BindSlice,
};

}  // namespace vicinal::internal

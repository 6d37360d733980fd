// SPDX-License-Identifier: Apache-2.0
// a * scale + shift, then the epilogue: copies, biases, BatchNorm, activations, and sums as a residual.
#include "absl/strings/str_cat.h"
#include "engine/plan/node_kinds/rowwise.h"

namespace vicinal::internal {
namespace {

void DescribeRow(StepDescription* step) {
  const Node& node = step->node();
  const ValueId input = node.inputs[0];
  *step->formula() = absl::StrCat(step->Shape(input), node.scale != nullptr ? " * scale" : "",
                                  node.shift != nullptr ? " + shift" : "");
  step->SetCost(step->Elements(input) * StepDescription::kFloatBytes, step->Elements(input));
}

}  // namespace

constinit const NodeTraits kRowTraits = {
    .kind = NodeKind::kRow,
    .name = "row",
    .fuses_epilogue = true,
    .describe = DescribeRow,
    .bind = BindRowwise<RowwiseKind::kAdd>,
};

}  // namespace vicinal::internal

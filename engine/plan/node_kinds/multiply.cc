// SPDX-License-Identifier: Apache-2.0
// The product of two, element by element.
#include "absl/strings/str_cat.h"
#include "engine/plan/node_kinds/rowwise.h"

namespace vicinal::internal {
namespace {

void DescribeMultiply(StepDescription* step) {
  const ValueId a = step->node().inputs[0], b = step->node().inputs[1];
  *step->formula() = absl::StrCat(step->Shape(a), " times ", step->Shape(b), ", element by element");
  step->SetCost(2 * step->Elements(a) * StepDescription::kFloatBytes, step->Elements(a));
}

}  // namespace

constinit const NodeTraits kMultiplyTraits = {
    .kind = NodeKind::kMultiply,
    .name = "multiply",
    .fuses_epilogue = true,
    .describe = DescribeMultiply,
    .bind = BindRowwiseOfTwo<RowwiseKind::kMultiply>,
};

}  // namespace vicinal::internal

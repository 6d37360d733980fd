// SPDX-License-Identifier: Apache-2.0
// The larger of two, element by element.
#include "absl/strings/str_cat.h"
#include "engine/plan/node_kinds/rowwise.h"

namespace vicinal::internal {
namespace {

void DescribeMax(StepDescription* step) {
  const ValueId a = step->node().inputs[0], b = step->node().inputs[1];
  *step->formula() = absl::StrCat("max(", step->Shape(a), ", ", step->Shape(b), ")");
  step->SetCost(2 * step->Elements(a) * StepDescription::kFloatBytes, step->Elements(a));
}

}  // namespace

constinit const NodeTraits kMaxTraits = {
    .kind = NodeKind::kMax,
    .name = "max",
    .fuses_epilogue = true,
    .describe = DescribeMax,
    .bind = BindRowwiseOfTwo<RowwiseKind::kMax>,
};

}  // namespace vicinal::internal

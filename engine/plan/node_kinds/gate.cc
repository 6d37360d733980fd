// SPDX-License-Identifier: Apache-2.0
// TransformerConv's gated skip connection.
#include "absl/strings/str_cat.h"
#include "engine/plan/node_kinds/rowwise.h"

namespace vicinal::internal {
namespace {

void DescribeGate(StepDescription* step) {
  const ValueId out = step->node().inputs[0], skip = step->node().inputs[1];
  *step->formula() = absl::StrCat("gate between ", step->Shape(out), " and ", step->Shape(skip));
  step->SetCost(2 * step->Elements(out) * StepDescription::kFloatBytes, 9 * step->Elements(out));
}

}  // namespace

constinit const NodeTraits kGateTraits = {
    .kind = NodeKind::kGate,
    .name = "gate",
    .describe = DescribeGate,
    .bind = BindRowwiseOfTwo<RowwiseKind::kGate>,
};

}  // namespace vicinal::internal

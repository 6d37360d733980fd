// SPDX-License-Identifier: Apache-2.0
// One row per graph: a reduction over its nodes.
#include "absl/strings/str_cat.h"
#include "engine/plan/node_kinds/rowwise.h"

namespace vicinal::internal {
namespace {

void DescribeReadout(StepDescription* step) {
  const ValueId input = step->node().inputs[0];
  *step->formula() =
      absl::StrCat(std::string(ToString(step->node().reduce)), " over each graph of ", step->Shape(input));
  step->SetCost(step->Elements(input) * StepDescription::kFloatBytes, step->Elements(input));
}

}  // namespace

constinit const NodeTraits kReadoutTraits = {
    .kind = NodeKind::kReadout,
    .name = "readout",
    .locality = Locality::kGraph,
    .row_per_graph = true,
    .fuses_epilogue = true,
    .describe = DescribeReadout,
    .bind = BindPerGraph<RowwiseKind::kReadout>,
};

}  // namespace vicinal::internal

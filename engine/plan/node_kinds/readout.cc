// SPDX-License-Identifier: Apache-2.0
// One row per graph: a reduction over its nodes; and the way back, that row for each node.
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

void DescribeExpand(StepDescription* step) {
  const ValueId input = step->node().inputs[0];
  *step->formula() = absl::StrCat("the row of its graph in ", step->Shape(input), " for each node");
  step->SetCost(step->Elements(input) * StepDescription::kFloatBytes, 0);
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

constinit const NodeTraits kExpandTraits = {
    .kind = NodeKind::kExpand,
    .name = "expand",
    .locality = Locality::kGraph,
    .fuses_epilogue = true,
    .describe = DescribeExpand,
    .bind = BindPerGraph<RowwiseKind::kExpand>,
};

}  // namespace vicinal::internal

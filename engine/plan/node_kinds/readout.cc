// SPDX-License-Identifier: Apache-2.0
// One row per graph: a reduction over its nodes, their medians, or some of them in order; and the way back, that row
// for each node.
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

void DescribeMedian(StepDescription* step) {
  const ValueId input = step->node().inputs[0];
  *step->formula() = absl::StrCat("lower median over each graph of ", step->Shape(input));
  step->SetCost(step->Elements(input) * StepDescription::kFloatBytes, 32 * step->Elements(input));
}

void DescribeSort(StepDescription* step) {
  const ValueId input = step->node().inputs[0];
  const int64_t rows = step->WidthOf(step->node().output) / step->WidthOf(input);
  *step->formula() = absl::StrCat("the first ", rows, " rows of each graph by the last column of ", step->Shape(input));
  step->SetCost(step->Elements(input) * StepDescription::kFloatBytes, rows * step->Elements(input));
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

constinit const NodeTraits kMedianTraits = {
    .kind = NodeKind::kMedian,
    .name = "median",
    .locality = Locality::kGraph,
    .row_per_graph = true,
    .fuses_epilogue = true,
    .describe = DescribeMedian,
    .bind = BindPerGraph<RowwiseKind::kMedian>,
};

constinit const NodeTraits kSortTraits = {
    .kind = NodeKind::kSort,
    .name = "sort",
    .locality = Locality::kGraph,
    .row_per_graph = true,
    .fuses_epilogue = true,
    .describe = DescribeSort,
    .bind = BindPerGraph<RowwiseKind::kSortRows>,
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

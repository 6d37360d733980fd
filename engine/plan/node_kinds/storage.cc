// SPDX-License-Identifier: Apache-2.0
// Kinds that change only the storage: the sparse input as dense rows, rows in 16 bits, values side by side.
#include "absl/strings/str_cat.h"
#include "engine/plan/node_kinds/rowwise.h"

namespace vicinal::internal {
namespace {

Status BindDensify(StepBinder* step) {
  VICINAL_ASSIGN_OR_RETURN(RowwiseArgs* const args, ChooseRowwise(step, RowwiseKind::kSparseToDense));
  step->SparseInput(&args->sparse, /*nnz=*/nullptr);
  return OkStatus();
}

void DescribeDensify(StepDescription* step) {
  *step->formula() = absl::StrCat("dense ", step->Shape(step->node().inputs[0]));
  step->SetCost(step->InputBytes(), 0);
}

Status BindNarrow(StepBinder* step) {
  VICINAL_ASSIGN_OR_RETURN(RowwiseArgs* const args, ChooseRowwise(step, RowwiseKind::kNarrow));
  step->Input(step->node().inputs[0], &args->a);
  step->Output(&args->dst16);
  return OkStatus();
}

}  // namespace

constinit const NodeTraits kDensifyTraits = {
    .kind = NodeKind::kDensify,
    .name = "densify",
    .reads_sparse_input = true,
    .describe = DescribeDensify,
    .bind = BindDensify,
};

constinit const NodeTraits kNarrowTraits = {
    .kind = NodeKind::kNarrow,
    .name = "narrow",
    .describe = DescribeRowwise,
    .bind = BindNarrow,
};

// PlaceConcats removes it.
constinit const NodeTraits kConcatTraits = {.kind = NodeKind::kConcat, .name = "concat"};

}  // namespace vicinal::internal

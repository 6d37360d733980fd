// SPDX-License-Identifier: Apache-2.0
// The sparse input, aggregated and multiplied in one step: operation sparse_aggregate_update.
#include "absl/strings/str_cat.h"
#include "engine/plan/build/step_binder.h"
#include "engine/plan/node_kinds/node_traits.h"
#include "engine/plan/node_kinds/step_description.h"

namespace vicinal::internal {
namespace {

Status BindPropagateLinear(StepBinder* step) {
  const Node& node = step->node();
  const AdjacencyShape shape = step->ShapeOfAdjacency();
  VICINAL_ASSIGN_OR_RETURN(const CsrView adjacency, step->Adjacency());
  const SparseAggregateUpdateProblem problem = {node.reduce,
                                                shape.weighted,
                                                shape.rows,
                                                shape.edges,
                                                node.weight->cols,
                                                node.weight->rows,
                                                step->request().features.nnz};
  VICINAL_ASSIGN_OR_RETURN(auto* bound, step->Choose(step->registry().sparse_aggregate_update, problem));
  bound->args.adjacency = adjacency;
  bound->args.self_scale = static_cast<float>(node.self_scale);
  VICINAL_ASSIGN_OR_RETURN(bound->args.weight, step->Pack(*bound, *node.weight));
  step->SparseInput(&bound->args.src, &bound->args.problem.nnz);
  return OkStatus();
}

void DescribePropagateLinear(StepDescription* step) {
  const Node& node = step->node();
  const StepSizes& sizes = step->sizes();
  const int64_t in_width = step->WidthOf(node.inputs[0]), out_width = step->out_width();
  const double row_entries =
      static_cast<double>(sizes.input_nnz) / static_cast<double>(sizes.nodes > 0 ? sizes.nodes : 1);
  const int64_t gathered = static_cast<int64_t>(row_entries * static_cast<double>(sizes.edges));
  *step->formula() = absl::StrCat(std::string(ToString(node.reduce)), " over ", step->AdjacencyShape(), " of ",
                                  step->Shape(node.inputs[0]), " * W^T [", in_width, ", ", out_width, "]");
  const int64_t entry_bytes = StepDescription::kIndexBytes + StepDescription::kFloatBytes;
  step->SetCost(step->AdjacencyBytes() + gathered * entry_bytes + in_width * out_width * StepDescription::kFloatBytes,
                gathered * (1 + 2 * out_width));
}

}  // namespace

constinit const NodeTraits kPropagateLinearTraits = {
    .kind = NodeKind::kPropagateLinear,
    .name = "propagate_linear",
    .locality = Locality::kNeighbourhood,
    .reads_sparse_input = true,
    .fuses_epilogue = true,
    .describe = DescribePropagateLinear,
    .bind = BindPropagateLinear,
};

}  // namespace vicinal::internal

// SPDX-License-Identifier: Apache-2.0
// A product with W: operation dense_update, or sparse_update for the sparse input.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/plan/build/step_binder.h"
#include "engine/plan/node_kinds/node_traits.h"
#include "engine/plan/node_kinds/step_description.h"

namespace vicinal::internal {
namespace {

Status BindSparse(StepBinder* step) {
  const Node& node = step->node();
  const SparseUpdateProblem problem = {step->RowsOf(node.output), node.weight->cols, node.weight->rows,
                                       step->request().features.nnz};
  VICINAL_ASSIGN_OR_RETURN(auto* bound, step->Choose(step->registry().sparse_update, problem));
  VICINAL_ASSIGN_OR_RETURN(bound->args.weight, step->Pack(*bound, *node.weight));
  step->SparseInput(&bound->args.src, &bound->args.problem.nnz);
  return OkStatus();
}

// Nothing where there is nothing to tune: products of rows per graph, which are few, and devices with one kernel.
std::optional<TuningWork> WorkOf(const StepBinder& step, const DenseUpdateProblem& problem) {
  if (step.program().values[step.node().output].per_graph) return std::nullopt;
  TuningWork work{KeyOf(problem, !step.node().epilogue.empty()), {}};
  const bool choice = HasChoice(step.registry().dense_update, problem, step.device());
  const bool decided = step.request().graph->tuning().Find(work.key).has_value();
  return choice || decided ? std::optional(std::move(work)) : std::nullopt;
}

Status BindLinear(StepBinder* step) {
  const Node& node = step->node();
  if (step->IsSparseInput(node.inputs[0])) return BindSparse(step);
  const DenseUpdateProblem problem = {step->RowsOf(node.output), node.weight->cols, node.weight->rows,
                                      step->request().products};
  const std::optional<TuningWork> work = WorkOf(*step, problem);
  VICINAL_ASSIGN_OR_RETURN(auto* bound,
                           step->Choose(step->registry().dense_update, problem, work.has_value() ? &*work : nullptr));
  VICINAL_ASSIGN_OR_RETURN(bound->args.weight, step->Pack(*bound, *node.weight));
  step->Input(node.inputs[0], &bound->args.src);
  return OkStatus();
}

void DescribeLinear(StepDescription* step) {
  const ValueId input = step->node().inputs[0];
  const int64_t in_width = step->WidthOf(input), out_width = step->out_width();
  const bool sparse = step->IsSparseInput(input);
  *step->formula() = absl::StrCat(step->Shape(input), " * W^T [", in_width, ", ", out_width, "]");
  const int64_t read = sparse ? step->InputBytes() : step->Elements(input) * StepDescription::kFloatBytes;
  step->SetCost(read + in_width * out_width * StepDescription::kFloatBytes,
                2 * (sparse ? step->sizes().input_nnz : step->Elements(input)) * out_width);
}

}  // namespace

constinit const NodeTraits kLinearTraits = {
    .kind = NodeKind::kLinear,
    .name = "linear",
    .reads_sparse_input = true,
    .fuses_epilogue = true,
    .describe = DescribeLinear,
    .bind = BindLinear,
};

}  // namespace vicinal::internal

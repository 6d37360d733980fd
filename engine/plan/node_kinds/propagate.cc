// SPDX-License-Identifier: Apache-2.0
// Aggregation over in-edges, with or without a product that follows: operation aggregate.
#include "engine/plan/node_kinds/propagate.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/plan/build/kernel_choice.h"
#include "engine/plan/build/step_binder.h"
#include "engine/plan/node_kinds/node_traits.h"
#include "engine/plan/node_kinds/step_description.h"

namespace vicinal::internal {
namespace {

// Without the product.
AggregateProblem ProblemOf(const Program& program, const Node& node, const AdjacencyShape& shape) {
  AggregateProblem problem;
  problem.reduce = node.reduce;
  problem.weighted = shape.weighted || node.source_scale.has_value();
  problem.rows = shape.rows;
  problem.cols = shape.cols;
  problem.edges = shape.edges;
  problem.width = program.values[node.inputs[0]].width;
  problem.storage = program.values[node.inputs[0]].storage;
  problem.source_scaled = !shape.weighted && node.source_scale.has_value();
  return problem;
}

TuningWork WorkOf(const AggregateProblem& problem, const Node& node) {
  const EdgeWeights weights = problem.source_scaled ? EdgeWeights::kPerSource
                              : problem.weighted    ? EdgeWeights::kPerEdge
                                                    : EdgeWeights::kNone;
  return {KeyOf(problem, weights), node.adjacency};
}

Status BindPropagate(StepBinder* step) {
  const Node& node = step->node();
  VICINAL_ASSIGN_OR_RETURN(const CsrView adjacency, step->Adjacency());
  VICINAL_ASSIGN_OR_RETURN(const float* const src_scale, step->DegreeScale(node.source_scale));
  AggregateProblem problem = ProblemOf(step->program(), node, step->ShapeOfAdjacency());
  const TuningWork work = WorkOf(problem, node);
  if (node.weight != nullptr) problem.out_width = node.weight->rows;
  VICINAL_ASSIGN_OR_RETURN(auto* bound, step->Choose(step->registry().aggregate, problem, &work));
  AggregateArgs& args = bound->args;
  args.adjacency = adjacency;
  args.src_scale = src_scale;
  args.self_scale = static_cast<float>(node.self_scale);
  if (problem.storage == Storage::kFloat32) {
    step->Input(node.inputs[0], &args.src);
  } else {
    step->Input(node.inputs[0], &args.src16);
  }
  step->SetEpilogue(node.inner, &args.row_epilogue);
  if (node.weight == nullptr) return OkStatus();
  VICINAL_ASSIGN_OR_RETURN(args.weight, step->Pack(*bound, *node.weight));
  VICINAL_ASSIGN_OR_RETURN(args.row_epilogue.bias, step->Copy(node.inner.bias));
  VICINAL_ASSIGN_OR_RETURN(args.row_epilogue.row_scale, step->DegreeScale(node.inner.degree_scale));
  return OkStatus();
}

void DescribePropagate(StepDescription* step) {
  const Node& node = step->node();
  const StepSizes& sizes = step->sizes();
  const int64_t in_width = step->WidthOf(node.inputs[0]);
  const int64_t weights = node.weight != nullptr ? in_width * step->out_width() : 0;
  std::string& formula = *step->formula();
  formula = absl::StrCat(std::string(ToString(node.reduce)), " over ", step->AdjacencyShape(), " of ",
                         step->Shape(node.inputs[0]),
                         node.self_scale != 0 ? absl::StrCat(" + ", node.self_scale, " * itself") : "");
  step->SetCost(step->AdjacencyBytes() + (sizes.edges * in_width + weights) * StepDescription::kFloatBytes,
                sizes.edges * in_width * (sizes.weighted ? 2 : 1) + 2 * sizes.nodes * weights);
  if (weights == 0) return;
  step->AddEpilogue(node.inner, sizes.nodes * in_width);
  formula = absl::StrCat("(", formula, ") * W^T [", in_width, ", ", step->out_width(), "]");
}

}  // namespace

std::string WhyProductUnsupported(BuildContext* context, const Node& node, int64_t out_width) {
  const PlanRequest& request = context->request;
  const KernelRegistry& registry = context->registry;
  if (request.products != ProductPrecision::kFloat32) return "the request allows rounding its factors";
  if (!ForcedName(request.forced, registry.dense_update.operation()).empty()) return "the request forces its kernel";
  AggregateProblem problem = ProblemOf(context->program, node, context->shapes.Of(node.adjacency));
  const std::optional<KernelSetting> setting = request.graph->tuning().Find(WorkOf(problem, node).key);
  bool tuned = false;
  const auto choice = ChooseKernel(registry.aggregate, problem, context->device.kind(), request, setting, &tuned);
  if (!choice.ok()) return "no kernel supports its aggregation";
  problem.out_width = out_width;
  const AggregateKernel& kernel = choice->kernel->kernel();
  const std::string refusal = kernel.WhyProductUnsupported(problem);
  return refusal.empty() ? refusal : absl::StrCat(std::string(kernel.name()), ": ", refusal);
}

constinit const NodeTraits kPropagateTraits = {
    .kind = NodeKind::kPropagate,
    .name = "propagate",
    .locality = Locality::kNeighbourhood,
    .fuses_epilogue = true,
    .describe = DescribePropagate,
    .bind = BindPropagate,
};

}  // namespace vicinal::internal

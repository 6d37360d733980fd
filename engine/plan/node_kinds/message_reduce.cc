// SPDX-License-Identifier: Apache-2.0
// EdgeConv: a message for each edge, the rest of the message MLP, and a reduction over in-edges: operation
// message_reduce. EdgeMessageStep: the same with features of edges and a function of its own in place of the MLP.
#include "engine/plan/node_kinds/message_reduce.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/plan/build/kernel_choice.h"
#include "engine/plan/build/step_binder.h"
#include "engine/plan/node_kinds/node_traits.h"
#include "engine/plan/node_kinds/step_description.h"

namespace vicinal::internal {
namespace {

bool GathersMessage(const Node&, size_t index) { return index == 0; }

// `in` columns of u give messages of `out`, after layers that apply to them.
void SetForm(const Node& node, int64_t in, int64_t out, MessageReduceProblem* problem) {
  switch (node.edge_function) {
    case EdgeFunction::kActivation:
      problem->width = in;
      break;
    case EdgeFunction::kGated:
      problem->form = MessageForm::kGated;
      problem->width = out;
      break;
    case EdgeFunction::kMixture:
      problem->form = MessageForm::kMixture;
      problem->width = out;
      problem->one_more = in > problem->coefficients() * out;
      break;
    case EdgeFunction::kOuter:
      problem->form = MessageForm::kOuter;
      problem->width = in;
      break;
  }
  VICINAL_CHECK(problem->source_width() == in && problem->out_width() == out);
}

MessageReduceProblem ProblemOf(const Program& program, const Node& node, const AdjacencyShape& shape) {
  MessageReduceProblem problem;
  problem.message = node.inputs.size() > 1 ? Message::kAdd : Message::kSource;
  problem.reduce = node.reduce;
  problem.weighted = shape.weighted;
  problem.rows = shape.rows;
  problem.cols = shape.cols;
  problem.edges = shape.edges;
  problem.num_layers = static_cast<int32_t>(node.message_layers.size());
  for (int32_t l = 0; l < problem.num_layers; ++l) problem.out_widths[l] = node.message_layers[l].weight->rows;
  problem.edge_width = node.edge_term.width;
  problem.softmax = node.softmax_temperature.has_value();
  if (node.edge_gaussians.mean != nullptr) problem.gaussians = node.edge_gaussians.mean->shape[0];
  SetForm(node, program.values[node.inputs[0]].width, program.values[node.output].width, &problem);
  return problem;
}

Status BindEdgeTerm(const EdgeTerm& term, StepBinder* step, MessageReduceArgs* args) {
  if (term.width == 0) return OkStatus();
  VICINAL_RETURN_IF_ERROR(step->EdgeFeatures(term.width, {}, &args->edge));
  if (term.weight == nullptr) return OkStatus();
  VICINAL_ASSIGN_OR_RETURN(args->edge_weight, step->CopyTransposed(*term.weight));
  if (term.bias == nullptr) return OkStatus();
  VICINAL_ASSIGN_OR_RETURN(args->edge_bias, step->Copy(term.bias->values));
  return OkStatus();
}

Status BindMessageReduce(StepBinder* step) {
  static_assert(kMaxEdgeConvLayers == kMaxMessageLayers + 1, "the first layer is multiplied per node");
  const Node& node = step->node();
  VICINAL_ASSIGN_OR_RETURN(const CsrView adjacency, step->Adjacency());
  VICINAL_ASSIGN_OR_RETURN(auto* bound, step->Choose(step->registry().message_reduce,
                                                     ProblemOf(step->program(), node, step->ShapeOfAdjacency())));
  MessageReduceArgs& args = bound->args;
  args.adjacency = adjacency;
  args.activation = node.message_activation;
  args.gate = node.message_gate;
  args.temperature = static_cast<float>(node.softmax_temperature.value_or(1.0));
  for (size_t l = 0; l < node.message_layers.size(); ++l) {
    const MessageLayer& layer = node.message_layers[l];
    VICINAL_ASSIGN_OR_RETURN(args.layers[l].weight, step->Pack(*bound, *layer.weight));
    VICINAL_ASSIGN_OR_RETURN(args.layers[l].bias, step->Copy(layer.bias));
    args.layers[l].activation = layer.activation;
  }
  if (args.problem.gaussians > 0) {
    VICINAL_ASSIGN_OR_RETURN(args.gaussian_mean, step->CopyTransposed(*node.edge_gaussians.mean));
    VICINAL_ASSIGN_OR_RETURN(args.gaussian_scale, step->CopyTransposed(*node.edge_gaussians.scale));
  }
  step->Input(node.inputs[0], &args.src);
  if (node.inputs.size() > 1) step->Input(node.inputs[1], &args.target);
  return BindEdgeTerm(node.edge_term, step, &args);
}

// "relu(u + v + features of edges ...)", or what else a message is before its layers.
std::string MessageFormula(StepDescription* step, int64_t edges) {
  const Node& node = step->node();
  const EdgeTerm& term = node.edge_term;
  const auto called = [](const Activation& activation) {
    return activation.kind == ActivationKind::kNone ? std::string() : std::string(ToString(activation.kind));
  };
  std::string features = absl::StrCat("features of edges [", edges, ", ", term.width, "]");
  if (const WeightRef& mean = node.edge_gaussians.mean; mean != nullptr)
    absl::StrAppend(&features, " in ", mean->shape[0], " Gaussians");
  if (node.edge_function == EdgeFunction::kMixture)
    return absl::StrCat("parts of ", step->Shape(node.inputs[0]), " mixed by ", features);
  if (node.edge_function == EdgeFunction::kOuter)
    return absl::StrCat(step->Shape(node.inputs[0]), " times each of ", features);
  std::string sum = step->Shape(node.inputs[0]);
  for (size_t i = 1; i < node.inputs.size(); ++i) absl::StrAppend(&sum, " + ", step->Shape(node.inputs[i]));
  if (term.width > 0) absl::StrAppend(&sum, " + ", features);
  if (term.weight != nullptr) absl::StrAppend(&sum, " * W^T [", term.width, ", ", step->WidthOf(node.inputs[0]), "]");
  if (node.edge_function == EdgeFunction::kActivation)
    return absl::StrCat(called(node.message_activation), "(", sum, ")");
  return absl::StrCat(called(node.message_gate), " * ", called(node.message_activation), " of the halves of (", sum,
                      ")");
}

void DescribeMessageReduce(StepDescription* step) {
  const Node& node = step->node();
  const int64_t edges = step->sizes().edges, in_width = step->WidthOf(node.inputs[0]);
  const EdgeTerm& term = node.edge_term;
  const bool outer = node.edge_function == EdgeFunction::kOuter;
  int64_t width = outer || node.edge_function == EdgeFunction::kMixture ? term.width : in_width, parameters = 0;
  std::string& formula = *step->formula();
  formula =
      absl::StrCat(node.softmax_temperature.has_value() ? "softmax-weighted " : "", std::string(ToString(node.reduce)),
                   " over ", step->AdjacencyShape(), " of ", MessageFormula(step, edges));
  for (const MessageLayer& layer : node.message_layers) {
    absl::StrAppend(&formula, " * W^T [", width, ", ", layer.weight->rows, "]");
    parameters += width * layer.weight->rows;
    width = layer.weight->rows;
  }
  if (const WeightRef& mean = node.edge_gaussians.mean; mean != nullptr) {
    parameters += 2 * mean->shape[0] * mean->shape[1];
    width = mean->shape[0];
  }
  const int64_t own = node.inputs.size() > 1 ? step->Elements(node.inputs[1]) : 0;
  const int64_t read = edges * (in_width + term.width) + own + parameters;
  const int64_t products = term.weight != nullptr ? 2 * in_width * term.width : term.width;
  step->SetCost(step->AdjacencyBytes() + read * StepDescription::kFloatBytes,
                edges * (in_width * (outer ? 2 * width : 1) + products + 2 * parameters + width));
}

}  // namespace

std::string WhyNoMessageKernel(BuildContext* context, const Node& node) {
  const MessageReduceProblem problem = ProblemOf(context->program, node, context->shapes.Of(node.adjacency));
  bool tuned = false;
  const auto choice = ChooseKernel(context->registry.message_reduce, problem, context->device.kind(), context->request,
                                   std::nullopt, &tuned);
  return choice.ok() ? std::string() : std::string(choice.status().message());
}

constinit const NodeTraits kMessageReduceTraits = {
    .kind = NodeKind::kMessageReduce,
    .name = "message_reduce",
    .locality = Locality::kNeighbourhood,
    .fuses_epilogue = true,
    .gathers = GathersMessage,
    .describe = DescribeMessageReduce,
    .bind = BindMessageReduce,
};

}  // namespace vicinal::internal

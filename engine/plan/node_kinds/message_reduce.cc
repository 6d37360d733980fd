// SPDX-License-Identifier: Apache-2.0
// EdgeConv: a message for each edge, the rest of the message MLP, and a reduction over in-edges: operation
// message_reduce. GINEConv: the same with u alone, features of edges, and no MLP.
#include "absl/strings/str_cat.h"
#include "engine/plan/build/step_binder.h"
#include "engine/plan/node_kinds/node_traits.h"
#include "engine/plan/node_kinds/step_description.h"

namespace vicinal::internal {
namespace {

bool GathersMessage(const Node&, size_t index) { return index == 0; }

MessageReduceProblem ProblemOf(StepBinder* step) {
  const Node& node = step->node();
  const AdjacencyShape shape = step->ShapeOfAdjacency();
  MessageReduceProblem problem;
  problem.message = node.inputs.size() > 1 ? Message::kAdd : Message::kSource;
  problem.reduce = node.reduce;
  problem.weighted = shape.weighted;
  problem.rows = shape.rows;
  problem.cols = shape.cols;
  problem.edges = shape.edges;
  problem.width = step->WidthOf(node.inputs[0]);
  problem.num_layers = static_cast<int32_t>(node.message_layers.size());
  for (int32_t l = 0; l < problem.num_layers; ++l) problem.out_widths[l] = node.message_layers[l].weight->rows;
  problem.edge_width = node.edge_term.width;
  return problem;
}

Status BindEdgeTerm(const EdgeTerm& term, StepBinder* step, MessageReduceArgs* args) {
  if (term.width == 0) return OkStatus();
  VICINAL_ASSIGN_OR_RETURN(args->edge, step->EdgeFeatures(term.width, {}));
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
  VICINAL_ASSIGN_OR_RETURN(auto* bound, step->Choose(step->registry().message_reduce, ProblemOf(step)));
  MessageReduceArgs& args = bound->args;
  args.adjacency = adjacency;
  args.activation = node.message_activation;
  for (size_t l = 0; l < node.message_layers.size(); ++l) {
    const MessageLayer& layer = node.message_layers[l];
    VICINAL_ASSIGN_OR_RETURN(args.layers[l].weight, step->Pack(*bound, *layer.weight));
    VICINAL_ASSIGN_OR_RETURN(args.layers[l].bias, step->Copy(layer.bias));
    args.layers[l].activation = layer.activation;
  }
  step->Input(node.inputs[0], &args.src);
  if (node.inputs.size() > 1) step->Input(node.inputs[1], &args.target);
  return BindEdgeTerm(node.edge_term, step, &args);
}

void DescribeMessageReduce(StepDescription* step) {
  const Node& node = step->node();
  const int64_t edges = step->sizes().edges, in_width = step->WidthOf(node.inputs[0]);
  const ActivationKind activation = node.message_activation.kind;
  int64_t width = in_width, parameters = 0;
  std::string& formula = *step->formula();
  formula = absl::StrCat(std::string(ToString(node.reduce)), " over ", step->AdjacencyShape(), " of ",
                         activation == ActivationKind::kNone ? "" : std::string(ToString(activation)), "(",
                         step->Shape(node.inputs[0]));
  for (size_t i = 1; i < node.inputs.size(); ++i) absl::StrAppend(&formula, " + ", step->Shape(node.inputs[i]));
  const EdgeTerm& term = node.edge_term;
  if (term.width > 0) absl::StrAppend(&formula, " + features of edges [", edges, ", ", term.width, "]");
  if (term.weight != nullptr) absl::StrAppend(&formula, " * W^T [", term.width, ", ", in_width, "]");
  formula += ")";
  for (const MessageLayer& layer : node.message_layers) {
    absl::StrAppend(&formula, " * W^T [", width, ", ", layer.weight->rows, "]");
    parameters += width * layer.weight->rows;
    width = layer.weight->rows;
  }
  const int64_t own = node.inputs.size() > 1 ? step->Elements(node.inputs[1]) : 0;
  const int64_t read = edges * (in_width + term.width) + own + parameters;
  const int64_t products = term.weight != nullptr ? 2 * in_width * term.width : term.width;
  step->SetCost(step->AdjacencyBytes() + read * StepDescription::kFloatBytes,
                edges * (in_width + products + 2 * parameters + width));
}

}  // namespace

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

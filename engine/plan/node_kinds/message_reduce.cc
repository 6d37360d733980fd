// SPDX-License-Identifier: Apache-2.0
// EdgeConv: a message for each edge, the rest of the message MLP, and a reduction over in-edges: operation
// message_reduce.
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
  problem.message = Message::kAdd;
  problem.reduce = node.reduce;
  problem.weighted = shape.weighted;
  problem.rows = shape.rows;
  problem.cols = shape.cols;
  problem.edges = shape.edges;
  problem.width = step->WidthOf(node.inputs[0]);
  problem.num_layers = static_cast<int32_t>(node.message_layers.size());
  for (int32_t l = 0; l < problem.num_layers; ++l) problem.out_widths[l] = node.message_layers[l].weight->rows;
  return problem;
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
  step->Input(node.inputs[1], &args.target);
  return OkStatus();
}

void DescribeMessageReduce(StepDescription* step) {
  const Node& node = step->node();
  const int64_t edges = step->sizes().edges, in_width = step->WidthOf(node.inputs[0]);
  const ActivationKind activation = node.message_activation.kind;
  int64_t width = in_width, parameters = 0;
  std::string& formula = *step->formula();
  formula = absl::StrCat(std::string(ToString(node.reduce)), " over ", step->AdjacencyShape(), " of ",
                         activation == ActivationKind::kNone ? "" : std::string(ToString(activation)), "(",
                         step->Shape(node.inputs[0]), " + ", step->Shape(node.inputs[1]), ")");
  for (const MessageLayer& layer : node.message_layers) {
    absl::StrAppend(&formula, " * W^T [", width, ", ", layer.weight->rows, "]");
    parameters += width * layer.weight->rows;
    width = layer.weight->rows;
  }
  const int64_t read = edges * in_width + step->Elements(node.inputs[1]) + parameters;
  step->SetCost(step->AdjacencyBytes() + read * StepDescription::kFloatBytes,
                edges * (in_width + 2 * parameters + width));
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

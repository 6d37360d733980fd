// SPDX-License-Identifier: Apache-2.0
// FAConv (Bo et al. 2021): out_i = eps x0_i + sum_{j -> i} tanh(a_l . x_j + a_r . x_i) w_ij x_j for GCN's normalised
// weights or, without `normalize`, the graph's. Two inputs of one width: x and x0. No in-edges: eps x0_i.
#include "engine/model/layers/layers.h"
#include "engine/model/layers/message_writer.h"

namespace vicinal::internal {
namespace {

Status CheckFa(const LayerContext& context) {
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("channels"));
  const int64_t width = context.input_width(), start = context.steps.width(context.inputs[1]);
  if (start != width) {
    return BadArchitecture(context.declaration.field + ".inputs",
                           context.Describe() + " needs x and x_0 of one width, but they have " +
                               std::to_string(width) + " and " + std::to_string(start) + " columns");
  }
  const bool normalize = context.args.Bool("normalize"), weighted = context.declaration.edge_weight;
  if (normalize == weighted) {
    return BadArchitecture(context.declaration.field + ".edge_weight",
                           context.Describe() + (normalize ? " takes no edge weights with normalize; set it to false"
                                                           : " needs edge weights without normalize; set edge_weight"));
  }
  return OkStatus();
}

StatusOr<ValueId> LowerFa(const LayerContext& context) {
  VICINAL_RETURN_IF_ERROR(CheckFa(context));
  const Arguments& args = context.args;
  const int64_t width = context.input_width();
  VICINAL_ASSIGN_OR_RETURN(WeightRef left, context.Tensor("att_l.weight", {1, width}));
  VICINAL_ASSIGN_OR_RETURN(WeightRef right, context.Tensor("att_r.weight", {1, width}));
  MessageDeclaration declaration;
  declaration.adjacency.weighting = args.Bool("normalize") ? EdgeWeighting::kGcnOnes : EdgeWeighting::kSent;
  if (args.Bool("normalize") && args.Bool("add_self_loops")) declaration.adjacency.loops = SelfLoops::kAddRemaining;
  MessageWriter write(context);
  const int32_t x_j = write.Source(0);
  const int32_t score = write.Add(write.Linear(x_j, left), write.Linear(write.Target(0), right));
  const int32_t share = write.Multiply(write.Activate(score, {ActivationKind::kTanh}), write.Weight());
  declaration.results = {{EdgeReduce::kSum, write.Multiply(x_j, share), -1}};
  VICINAL_ASSIGN_OR_RETURN(const ValueId sum, write.Lower(declaration));
  AttentionStep attention;
  attention.adjacency = declaration.adjacency;
  context.steps.Declare({0, AttentionScore::kTanh, attention, context.input(), {left, right}});
  const double eps = args.Number("eps");
  if (eps == 0.0) return sum;
  return context.steps.Emit(AddStep{1.0, eps}, {sum, context.inputs[1]}, width);
}

}  // namespace

LayerType FaConv() {
  LayerType type;
  type.name = "FAConv";
  type.arguments = {InChannelsArgument("channels"),       NumberArgument("eps", 0.1, -1e6, 1e6),
                    IgnoredArgument("dropout"),           IgnoredArgument("cached"),
                    BoolArgument("add_self_loops", true), BoolArgument("normalize", true)};
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.min_inputs = type.max_inputs = 2;
  type.convolution = true;
  type.takes_edge_weight = true;
  type.lower = LowerFa;
  return type;
}

}  // namespace vicinal::internal

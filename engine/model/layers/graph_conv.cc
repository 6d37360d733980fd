// SPDX-License-Identifier: Apache-2.0
// GraphConv (Morris et al. 2019): out = reduce_{j -> i}(w_ij x_j) W_rel^T + b + x_i W_root^T. Loops and duplicates
// count as sent; a mean divides by the number of in-edges, not by the sum of their weights; no in-edges: 0.
#include <utility>

#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> LowerGraphConv(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t in = context.input_width(), out = args.Int("out_channels");
  PropagateStep propagate;
  propagate.reduce = args.Aggr();
  if (context.declaration.edge_weight) propagate.adjacency.weighting = EdgeWeighting::kSent;
  const ValueId reduced = context.steps.Emit(propagate, {context.input()}, in);
  VICINAL_ASSIGN_OR_RETURN(WeightRef relation, context.Tensor("lin_rel.weight", {out, in}));
  WeightRef bias;
  if (args.Bool("bias")) {
    VICINAL_ASSIGN_OR_RETURN(bias, context.Tensor("lin_rel.bias", {out}));
  }
  const ValueId neighbours = context.steps.Emit(LinearStep{relation, bias}, {reduced}, out);
  VICINAL_ASSIGN_OR_RETURN(WeightRef root_weight, context.Tensor("lin_root.weight", {out, in}));
  const ValueId root = context.steps.Emit(LinearStep{root_weight, nullptr}, {context.input()}, out);
  return context.steps.Emit(AddStep{}, {neighbours, root}, out);
}

}  // namespace

LayerType GraphConv() {
  LayerType type;
  type.name = "GraphConv";
  type.arguments = {InChannelsArgument("in_channels"), RequiredIntArgument("out_channels", 1, kMaxWidth),
                    AggrArgument("add"), BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(false), &type.arguments);
  type.convolution = true;
  type.takes_edge_weight = true;
  type.lower = LowerGraphConv;
  return type;
}

}  // namespace vicinal::internal

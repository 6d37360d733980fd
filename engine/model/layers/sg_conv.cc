// SPDX-License-Identifier: Apache-2.0
// SGConv (Wu et al. 2019): out = A'^K x W^T + b, with GCNConv's A'.
#include <utility>

#include "engine/model/layers/gcn_adjacency.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> LowerSg(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t in = context.input_width(), out = args.Int("out_channels");
  PropagateStep propagate;
  propagate.adjacency = GcnAdjacency({true, args.Bool("add_self_loops"), false, context.declaration.edge_weight});
  ValueId value = context.input();
  for (int64_t hop = 0; hop < args.Int("K"); ++hop) value = context.steps.Emit(propagate, {value}, in);
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("lin.weight", {out, in}));
  WeightRef bias;
  if (args.Bool("bias")) {
    VICINAL_ASSIGN_OR_RETURN(bias, context.Tensor("lin.bias", {out}));
  }
  return context.steps.Emit(LinearStep{weight, bias}, {value}, out);
}

}  // namespace

LayerType SgConv() {
  LayerType type;
  type.name = "SGConv";
  type.arguments = {InChannelsArgument("in_channels"),    RequiredIntArgument("out_channels", 1, kMaxWidth),
                    IntArgument("K", 1, 0, kMaxHops),     IgnoredArgument("cached"),
                    BoolArgument("add_self_loops", true), BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.convolution = true;
  type.takes_edge_weight = true;
  type.lower = LowerSg;
  return type;
}

}  // namespace vicinal::internal

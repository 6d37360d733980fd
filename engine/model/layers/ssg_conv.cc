// SPDX-License-Identifier: Apache-2.0
// SSGConv (Zhu and Koniusz 2021): out = (alpha x + (1 - alpha) / K sum_{k = 1..K} A'^k x) W^T + b, with GCNConv's A'.
#include <utility>

#include "engine/model/layers/gcn_adjacency.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> LowerSsg(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t in = context.input_width(), out = args.Int("out_channels"), hops = args.Int("K");
  const double alpha = args.Number("alpha"), share = (1.0 - alpha) / static_cast<double>(hops);
  PropagateStep propagate;
  propagate.adjacency = GcnAdjacency({true, args.Bool("add_self_loops"), false, context.declaration.edge_weight});
  ValueId hop = context.input(), sum = context.input();
  for (int64_t k = 0; k < hops; ++k) {
    hop = context.steps.Emit(propagate, {hop}, in);
    sum = context.steps.Emit(AddStep{k == 0 ? alpha : 1.0, share}, {sum, hop}, in);
  }
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("lin.weight", {out, in}));
  WeightRef bias;
  if (args.Bool("bias")) {
    VICINAL_ASSIGN_OR_RETURN(bias, context.Tensor("lin.bias", {out}));
  }
  return context.steps.Emit(LinearStep{weight, bias}, {sum}, out);
}

}  // namespace

LayerType SsgConv() {
  LayerType type;
  type.name = "SSGConv";
  ArgumentSpec alpha = NumberArgument("alpha", 0.0, 0.0, 1.0);
  alpha.required = true;
  type.arguments = {InChannelsArgument("in_channels"),
                    RequiredIntArgument("out_channels", 1, kMaxWidth),
                    alpha,
                    IntArgument("K", 1, 1, kMaxHops),
                    IgnoredArgument("cached"),
                    BoolArgument("add_self_loops", true),
                    BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.convolution = true;
  type.takes_edge_weight = true;
  type.lower = LowerSsg;
  return type;
}

}  // namespace vicinal::internal

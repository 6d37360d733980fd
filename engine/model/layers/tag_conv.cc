// SPDX-License-Identifier: Apache-2.0
// TAGConv (Du et al. 2017): out = sum_{k = 0..K} A'^k x W_k^T + b, with GCNConv's A' without added loops; without
// `normalize` A as sent.
#include <utility>

#include "engine/model/layers/gcn_adjacency.h"
#include "engine/model/layers/layers.h"
#include "engine/model/layers/root_and_bias.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> LowerTag(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t in = context.input_width(), out = args.Int("out_channels");
  PropagateStep propagate;
  propagate.adjacency = GcnAdjacency({args.Bool("normalize"), false, false, context.declaration.edge_weight});
  ValueId hop = context.input(), sum = -1;
  for (int64_t k = 0; k <= args.Int("K"); ++k) {
    if (k > 0) hop = context.steps.Emit(propagate, {hop}, in);
    VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("lins." + std::to_string(k) + ".weight", {out, in}));
    const ValueId product = context.steps.Emit(LinearStep{weight, nullptr}, {hop}, out);
    sum = sum < 0 ? product : context.steps.Emit(AddStep{}, {sum, product}, out);
  }
  return AddBias(context, sum, out);
}

}  // namespace

LayerType TagConv() {
  LayerType type;
  type.name = "TAGConv";
  type.arguments = {InChannelsArgument("in_channels"), RequiredIntArgument("out_channels", 1, kMaxWidth),
                    IntArgument("K", 3, 0, kMaxHops), BoolArgument("bias", true), BoolArgument("normalize", true)};
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.convolution = true;
  type.takes_edge_weight = true;
  type.lower = LowerTag;
  return type;
}

}  // namespace vicinal::internal

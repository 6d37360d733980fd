// SPDX-License-Identifier: Apache-2.0
// ChebConv (Defferrard et al. 2016): out = sum_{k < K} T_k W_k^T + b for T_0 = x, T_1 = L x, T_k = 2 L T_(k-1) -
// T_(k-2). The Laplacian I - A', of an A' without loops, is scaled by 2 / lambda_max and lowered by 1. Its largest
// entry is 1, so PyTorch Geometric takes lambda_max for 2, and L is -A'.
#include <utility>

#include "engine/model/layers/layers.h"
#include "engine/model/layers/root_and_bias.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> LowerCheb(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t in = context.input_width(), out = args.Int("out_channels");
  const bool symmetric = args.Choice("normalization") == "sym", sent = context.declaration.edge_weight;
  PropagateStep propagate;
  propagate.adjacency.weighting = symmetric ? (sent ? EdgeWeighting::kSourceSymSent : EdgeWeighting::kSourceSymOnes)
                                            : (sent ? EdgeWeighting::kSourceMeanSent : EdgeWeighting::kSourceMeanOnes);
  ValueId before = -1, term = context.input(), sum = -1;
  for (int64_t k = 0; k < args.Int("K"); ++k) {
    if (k > 0) {
      const ValueId propagated = context.steps.Emit(propagate, {term}, in);
      const ValueId next = before < 0 ? context.steps.Emit(ScaleStep{-1.0, nullptr}, {propagated}, in)
                                      : context.steps.Emit(AddStep{-2.0, -1.0}, {propagated, before}, in);
      before = std::exchange(term, next);
    }
    VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("lins." + std::to_string(k) + ".weight", {out, in}));
    const ValueId product = context.steps.Emit(LinearStep{weight, nullptr}, {term}, out);
    sum = sum < 0 ? product : context.steps.Emit(AddStep{}, {sum, product}, out);
  }
  return AddBias(context, sum, out);
}

}  // namespace

LayerType ChebConv() {
  LayerType type;
  type.name = "ChebConv";
  type.arguments = {InChannelsArgument("in_channels"), RequiredIntArgument("out_channels", 1, kMaxWidth),
                    RequiredIntArgument("K", 1, kMaxHops), ChoiceArgument("normalization", "sym", {"sym", "rw"}),
                    BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.convolution = true;
  type.takes_edge_weight = true;
  type.lower = LowerCheb;
  return type;
}

}  // namespace vicinal::internal

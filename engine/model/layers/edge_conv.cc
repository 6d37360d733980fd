// SPDX-License-Identifier: Apache-2.0
// EdgeConv (Wang et al. 2019): out_i = reduce_{j -> i}( nn([x_i, x_j - x_i]) ). Loops and duplicates count as sent; no
// in-edges: 0.
#include <utility>

#include "engine/model/layers/edge_mlp.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> LowerEdgeConv(const LayerContext& context) {
  EdgeConvStep step;
  step.reduce = context.args.Aggr();
  VICINAL_ASSIGN_OR_RETURN(EdgeMlpOps nn, ReadEdgeMlp(context, 2 * context.input_width()));
  step.nn = std::move(nn.ops);
  return context.steps.Emit(std::move(step), {context.input()}, nn.width);
}

}  // namespace

LayerType EdgeConv() {
  LayerType type;
  type.name = "EdgeConv";
  type.arguments = {NestedArgument("nn"), AggrArgument("max")};
  AddArguments(MessagePassingArguments(false), &type.arguments);
  type.convolution = true;
  type.lower = LowerEdgeConv;
  return type;
}

}  // namespace vicinal::internal

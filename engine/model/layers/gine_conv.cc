// SPDX-License-Identifier: Apache-2.0
// GINEConv (Hu et al. 2020): out = nn(sum_{j -> i} relu(x_j + e_ij) + (1 + eps) x_i) for the features e_ij of edges,
// with `edge_dim` after the product `lin`. Loops and duplicates count as sent, each with its own features.
#include <utility>

#include "engine/model/layers/edge_features.h"
#include "engine/model/layers/gin_nn.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> LowerGine(const LayerContext& context) {
  VICINAL_ASSIGN_OR_RETURN(const double eps, GinEpsilon(context));
  const int64_t width = context.input_width();
  EdgeMessageStep sum;
  sum.activation.kind = ActivationKind::kRelu;
  sum.reduce = context.args.Aggr();
  sum.edge_width = width;
  if (const int64_t edge_dim = EdgeDim(context); edge_dim > 0) {
    sum.edge_width = edge_dim;
    VICINAL_ASSIGN_OR_RETURN(sum.edge_weight, context.Tensor("lin.weight", {width, edge_dim}));
    VICINAL_ASSIGN_OR_RETURN(sum.edge_bias, context.Tensor("lin.bias", {width}));
  }
  const ValueId messages = context.steps.Emit(std::move(sum), {context.input()}, width);
  const ValueId value = context.steps.Emit(AddStep{1.0, 1.0 + eps}, {messages, context.input()}, width);
  return LowerGinNn(context, value);
}

}  // namespace

LayerType GineConv() {
  LayerType type;
  type.name = "GINEConv";
  type.arguments = {NestedArgument("nn"), NumberArgument("eps", 0.0, -1e6, 1e6), BoolArgument("train_eps", false),
                    EdgeDimArgument(), AggrArgument("sum")};
  AddArguments(MessagePassingArguments(false), &type.arguments);
  type.convolution = true;
  type.lower = LowerGine;
  return type;
}

}  // namespace vicinal::internal

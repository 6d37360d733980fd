// SPDX-License-Identifier: Apache-2.0
// GINConv (Xu et al. 2019): out = nn(sum_{j -> i} x_j + (1 + eps) x_i). Loops and duplicates count as sent.
#include "engine/model/layers/gin_nn.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> LowerGin(const LayerContext& context) {
  PropagateStep propagate;
  VICINAL_ASSIGN_OR_RETURN(const double eps, GinEpsilon(context));
  propagate.self_scale = 1.0 + eps;
  return LowerGinNn(context, context.steps.Emit(propagate, {context.input()}, context.input_width()));
}

}  // namespace

LayerType GinConv() {
  LayerType type;
  type.name = "GINConv";
  type.arguments = {NestedArgument("nn"), NumberArgument("eps", 0.0, -1e6, 1e6), BoolArgument("train_eps", false)};
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.convolution = true;
  type.lower = LowerGin;
  return type;
}

}  // namespace vicinal::internal

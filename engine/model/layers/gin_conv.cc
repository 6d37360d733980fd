// SPDX-License-Identifier: Apache-2.0
// GINConv (Xu et al. 2019): out = nn(sum_{j -> i} x_j + (1 + eps) x_i). Loops and duplicates count as sent. `eps` in
// the weights file (a parameter, or a buffer that state_dicts carry) stands above the argument.
#include <utility>

#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

StatusOr<double> Epsilon(const LayerContext& context) {
  if (!context.args.Bool("train_eps") && !context.tensors.Has(context.declaration.prefix + "eps"))
    return context.args.Number("eps");
  VICINAL_ASSIGN_OR_RETURN(WeightRef eps, context.Tensor("eps", {1}));
  return static_cast<double>(eps->values[0]);
}

StatusOr<ValueId> LowerGin(const LayerContext& context) {
  PropagateStep propagate;
  VICINAL_ASSIGN_OR_RETURN(const double eps, Epsilon(context));
  propagate.self_scale = 1.0 + eps;
  ValueId value = context.steps.Emit(propagate, {context.input()}, context.input_width());
  VICINAL_ASSIGN_OR_RETURN(
      std::vector<LayerDeclaration> layers,
      ParseNestedLayers(context.args.Raw("nn"), context.declaration.prefix + "nn.", context.args.FieldOf("nn")));
  for (const LayerDeclaration& layer : layers) {
    VICINAL_ASSIGN_OR_RETURN(
        value, LowerLayer(layer, {value}, context.steps, context.tensors, context.graph_level, true, nullptr));
  }
  return value;
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

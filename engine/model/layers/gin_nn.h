// SPDX-License-Identifier: Apache-2.0
// What GINConv and GINEConv share: eps, and the network after the sum.
#ifndef VICINAL_ENGINE_MODEL_LAYERS_GIN_NN_H_
#define VICINAL_ENGINE_MODEL_LAYERS_GIN_NN_H_

#include <vector>

#include "engine/model/layer_type.h"

namespace vicinal::internal {

// `eps` of the weights file (a parameter, or a buffer that state_dicts carry) stands above the argument.
inline StatusOr<double> GinEpsilon(const LayerContext& context) {
  if (!context.args.Bool("train_eps") && !context.tensors.Has(context.declaration.prefix + "eps"))
    return context.args.Number("eps");
  VICINAL_ASSIGN_OR_RETURN(WeightRef eps, context.Tensor("eps", {1}));
  return static_cast<double>(eps->values[0]);
}

// The layers of the argument `nn`, one after the other.
inline StatusOr<ValueId> LowerGinNn(const LayerContext& context, ValueId value) {
  VICINAL_ASSIGN_OR_RETURN(
      std::vector<LayerDeclaration> layers,
      ParseNestedLayers(context.args.Raw("nn"), context.declaration.prefix + "nn.", context.args.FieldOf("nn")));
  for (const LayerDeclaration& layer : layers) {
    VICINAL_ASSIGN_OR_RETURN(
        value, LowerLayer(layer, {value}, context.steps, context.tensors, context.graph_level, true, nullptr));
  }
  return value;
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYERS_GIN_NN_H_

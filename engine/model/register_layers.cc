// SPDX-License-Identifier: Apache-2.0
// The list of layer types. Explicit, so that nothing depends on the order of static initialisers or on what a linker
// keeps.
#include <algorithm>

#include "engine/model/layer_type.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

std::vector<LayerType>* MakeLayerTypes() {
  auto* types = new std::vector<LayerType>{
      AddLayer(),
      Appnp(),
      BatchNormLayer(),
      BatchNorm1dLayer(),
      DropoutLayer(),
      EdgeConv(),
      EluLayer(),
      GatConv(),
      GatV2Conv(),
      GcnConv(),
      GinConv(),
      GlobalAddPool(),
      GlobalMaxPool(),
      GlobalMeanPool(),
      GraphConv(),
      IdentityLayer(),
      JumpingKnowledgeLayer(),
      LayerNormLayer(),
      LeakyReluLayer(),
      LinearLayer(),
      MaxAggregation(),
      MeanAggregation(),
      MinAggregation(),
      NormalizeLayer(),
      ReluLayer(),
      SageConv(),
      SgConv(),
      SigmoidLayer(),
      SumAggregation(),
      TanhLayer(),
      TransformerConv(),
  };
  std::sort(types->begin(), types->end(), [](const LayerType& a, const LayerType& b) { return a.name < b.name; });
  return types;
}

}  // namespace

const std::vector<LayerType>& LayerTypes() {
  static const std::vector<LayerType>* const kTypes = MakeLayerTypes();
  return *kTypes;
}

}  // namespace vicinal::internal

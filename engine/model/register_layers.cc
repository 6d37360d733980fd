// SPDX-License-Identifier: Apache-2.0
// The list of layer types. Explicit, so that nothing depends on the order of static initialisers or on what a linker
// keeps.
#include <algorithm>
#include <utility>

#include "engine/model/layer_type.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

std::vector<LayerType>* MakeLayerTypes() {
  auto* types = new std::vector<LayerType>{
      AddLayer(),
      Appnp(),
      ArmaConv(),
      BatchNorm1dLayer(),
      BatchNormLayer(),
      CgConv(),
      ChebConv(),
      ClusterGcnConv(),
      ConcatLayer(),
      EdgeConv(),
      GatConv(),
      GatedGraphConv(),
      GatV2Conv(),
      Gcn2Conv(),
      GcnConv(),
      GenConv(),
      GinConv(),
      GineConv(),
      GlobalAddPool(),
      GlobalMaxPool(),
      GlobalMeanPool(),
      GmmConv(),
      GraphConv(),
      JumpingKnowledgeLayer(),
      LayerNormLayer(),
      LgConv(),
      LinearLayer(),
      MaxAggregation(),
      MeanAggregation(),
      MessagePassing(),
      MinAggregation(),
      MlpLayer(),
      MulLayer(),
      NnConv(),
      NormalizeLayer(),
      ResGatedGraphConv(),
      AttentionalAggregation(),
      SoftmaxAggregation(),
      GraphNormLayer(),
      InstanceNormLayer(),
      PairNormLayer(),
      RmsNormLayer(),
      MessageNormLayer(),
      DiffGroupNormLayer(),
      SageConv(),
      ScaleLayer(),
      SgConv(),
      SsgConv(),
      SumAggregation(),
      TagConv(),
      TransformerConv(),
      PnaConv(),
      FaConv(),
      SuperGatConv(),
      DirGnnConv(),
      VarAggregation(),
      StdAggregation(),
      MedianAggregation(),
      SortAggregation(),
      MultiAggregation(),
  };
  for (LayerType& type : ActivationLayers()) types->push_back(std::move(type));
  std::sort(types->begin(), types->end(), [](const LayerType& a, const LayerType& b) { return a.name < b.name; });
  return types;
}

}  // namespace

const std::vector<LayerType>& LayerTypes() {
  static const std::vector<LayerType>* const kTypes = MakeLayerTypes();
  return *kTypes;
}

}  // namespace vicinal::internal

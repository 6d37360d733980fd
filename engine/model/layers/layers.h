// SPDX-License-Identifier: Apache-2.0
// All layer types, one function each; register_layers.cc lists them. Semantics are PyTorch Geometric's
// (docs/layers.md).
#ifndef VICINAL_ENGINE_MODEL_LAYERS_LAYERS_H_
#define VICINAL_ENGINE_MODEL_LAYERS_LAYERS_H_

#include <vector>

#include "engine/model/layer_type.h"

namespace vicinal::internal {

LayerType GcnConv();
LayerType SageConv();
LayerType GraphConv();
LayerType GinConv();
LayerType GineConv();
LayerType GatConv();
LayerType GatV2Conv();
LayerType TransformerConv();
LayerType EdgeConv();
LayerType SgConv();
LayerType Appnp();
LayerType LgConv();
LayerType SsgConv();
LayerType TagConv();
LayerType ClusterGcnConv();
LayerType Gcn2Conv();
LayerType ArmaConv();
LayerType ChebConv();
LayerType GatedGraphConv();
LayerType CgConv();
LayerType ResGatedGraphConv();
LayerType GenConv();
LayerType GmmConv();
LayerType NnConv();
LayerType PnaConv();
LayerType FaConv();
LayerType SuperGatConv();
LayerType DirGnnConv();
LayerType LinearLayer();
LayerType BatchNormLayer();    // torch_geometric.nn.BatchNorm: tensors under "module."
LayerType BatchNorm1dLayer();  // torch.nn.BatchNorm1d
LayerType LayerNormLayer();
LayerType NormalizeLayer();
LayerType GraphNormLayer();
LayerType InstanceNormLayer();
LayerType PairNormLayer();
LayerType RmsNormLayer();  // torch.nn's
LayerType MessageNormLayer();
LayerType DiffGroupNormLayer();
LayerType MessagePassing();
LayerType MlpLayer();
std::vector<LayerType> ActivationLayers();  // torch.nn's, and Identity and Dropout
LayerType JumpingKnowledgeLayer();
LayerType ConcatLayer();
LayerType AddLayer();
LayerType MulLayer();
LayerType ScaleLayer();
LayerType GlobalAddPool();
LayerType GlobalMeanPool();
LayerType GlobalMaxPool();
LayerType SumAggregation();
LayerType MeanAggregation();
LayerType MaxAggregation();
LayerType MinAggregation();
LayerType AttentionalAggregation();
LayerType SoftmaxAggregation();
LayerType VarAggregation();
LayerType StdAggregation();
LayerType MedianAggregation();
LayerType SortAggregation();
LayerType MultiAggregation();

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYERS_LAYERS_H_

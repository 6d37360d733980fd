// SPDX-License-Identifier: Apache-2.0
// Readouts: one row per graph from the rows of its nodes. They end the part of a model that reads the graph. PyTorch
// Geometric has them as functions and as modules.
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> Lower(const LayerContext& context, Reduce reduce) {
  return context.steps.Emit(ReadoutStep{reduce}, {context.input()}, context.input_width());
}

StatusOr<ValueId> LowerSum(const LayerContext& context) { return Lower(context, Reduce::kSum); }
StatusOr<ValueId> LowerMean(const LayerContext& context) { return Lower(context, Reduce::kMean); }
StatusOr<ValueId> LowerMax(const LayerContext& context) { return Lower(context, Reduce::kMax); }
StatusOr<ValueId> LowerMin(const LayerContext& context) { return Lower(context, Reduce::kMin); }

LayerType Pool(const char* name, StatusOr<ValueId> (*lower)(const LayerContext&)) {
  LayerType type;
  type.name = name;
  type.node_rows = true;
  type.lower = lower;
  return type;
}

}  // namespace

LayerType GlobalAddPool() { return Pool("global_add_pool", LowerSum); }
LayerType GlobalMeanPool() { return Pool("global_mean_pool", LowerMean); }
LayerType GlobalMaxPool() { return Pool("global_max_pool", LowerMax); }
LayerType SumAggregation() { return Pool("SumAggregation", LowerSum); }
LayerType MeanAggregation() { return Pool("MeanAggregation", LowerMean); }
LayerType MaxAggregation() { return Pool("MaxAggregation", LowerMax); }
LayerType MinAggregation() { return Pool("MinAggregation", LowerMin); }

}  // namespace vicinal::internal

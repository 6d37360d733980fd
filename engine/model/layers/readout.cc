// SPDX-License-Identifier: Apache-2.0
// Readouts: one row per graph from the rows of its nodes. They end the part of a model that reads the graph. PyTorch
// Geometric has them as functions and as modules.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
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

// The mean square of differences from the graph's mean.
ValueId VarianceOfGraph(const LayerContext& context) {
  const int64_t width = context.input_width();
  const ValueId mean = context.steps.Emit(ReadoutStep{Reduce::kMean}, {context.input()}, width);
  const ValueId expanded = context.steps.Emit(ExpandStep{}, {mean}, width);
  const ValueId away = context.steps.Emit(AddStep{1.0, -1.0}, {context.input(), expanded}, width);
  const ValueId square = context.steps.Emit(MultiplyStep{}, {away, away}, width);
  return context.steps.Emit(ReadoutStep{Reduce::kMean}, {square}, width);
}
StatusOr<ValueId> LowerVar(const LayerContext& context) { return VarianceOfGraph(context); }
// Its root, 0 where the variance is at most 1e-5.
StatusOr<ValueId> LowerStd(const LayerContext& context) {
  const int64_t width = context.input_width();
  const ValueId kept =
      context.steps.Emit(ActivationStep{{ActivationKind::kThreshold, 1e-5f, 0.0f}}, {VarianceOfGraph(context)}, width);
  return context.steps.Emit(ActivationStep{{ActivationKind::kRoot, 0.0f}}, {kept}, width);
}

StatusOr<ValueId> LowerMedian(const LayerContext& context) {
  return context.steps.Emit(MedianStep{}, {context.input()}, context.input_width());
}

// The first k rows of each graph, side by side.
StatusOr<ValueId> LowerSort(const LayerContext& context) {
  const int64_t width = context.args.Int("k") * context.input_width();
  if (width > kMaxWidth) {
    return BadArchitecture(context.args.FieldOf("k"), context.Describe() + " would be " + std::to_string(width) +
                                                          " columns wide (k times its input's width); at most " +
                                                          std::to_string(kMaxWidth) + " are supported");
  }
  return context.steps.Emit(SortStep{}, {context.input()}, width);
}

// Several readouts of one input, side by side.
StatusOr<ValueId> LowerMulti(const LayerContext& context) {
  const std::string field = context.args.FieldOf("aggrs");
  VICINAL_ASSIGN_OR_RETURN(const std::vector<LayerDeclaration> readouts,
                           ParseNestedLayers(context.args.Raw("aggrs"), context.declaration.prefix + "aggrs.", field));
  std::vector<ValueId> values;
  int64_t width = 0;
  for (const LayerDeclaration& readout : readouts) {
    if (!absl::EndsWith(readout.type, "Aggregation") || readout.type == context.declaration.type) {
      return BadArchitecture(readout.field + ".type", readout.field + ".type of " + context.Describe() +
                                                          " must be a readout (SumAggregation, ...)");
    }
    VICINAL_ASSIGN_OR_RETURN(const ValueId value, LowerLayer(readout, {context.input()}, context.steps, context.tensors,
                                                             context.graph_level, false, nullptr));
    values.push_back(value);
    width += context.steps.width(value);
  }
  if (width > kMaxWidth) {
    return BadArchitecture(field, context.Describe() + " would be " + std::to_string(width) +
                                      " columns wide; at most " + std::to_string(kMaxWidth) + " are supported");
  }
  if (values.size() == 1) return values[0];
  return context.steps.Emit(ConcatStep{}, std::move(values), width);
}

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
LayerType VarAggregation() {
  LayerType type = Pool("VarAggregation", LowerVar);
  type.arguments = {IgnoredArgument("semi_grad")};
  return type;
}
LayerType StdAggregation() {
  LayerType type = Pool("StdAggregation", LowerStd);
  type.arguments = {IgnoredArgument("semi_grad")};
  return type;
}
LayerType MedianAggregation() {
  LayerType type = Pool("MedianAggregation", LowerMedian);
  type.arguments = {RefusedArgument("fill_value", {0, 0.0}, "an empty graph gives 0")};
  return type;
}
LayerType SortAggregation() {
  LayerType type = Pool("SortAggregation", LowerSort);
  type.arguments = {RequiredIntArgument("k", 1, 65536)};
  return type;
}
LayerType MultiAggregation() {
  LayerType type = Pool("MultiAggregation", LowerMulti);
  type.arguments = {NestedArgument("aggrs"),
                    RefusedArgument("aggrs_kwargs", {nullptr}, "each readout of the list has arguments of its own"),
                    RefusedArgument("mode", {"cat"}, "the readouts stand side by side; only 'cat' is supported"),
                    RefusedArgument("mode_kwargs", {nullptr}, "only the mode 'cat' is supported")};
  return type;
}

}  // namespace vicinal::internal

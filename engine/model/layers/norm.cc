// SPDX-License-Identifier: Apache-2.0
// Normalisations: BatchNorm with running statistics, LayerNorm per node or over the whole graph, rows scaled to
// length 1.
#include <utility>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

// A negative variance would give NaN for every node.
Status CheckVariance(const Weight& var, const LayerContext& context) {
  for (float value : var.values) {
    if (value < 0.0f) {
      return InvalidArgument("TENSOR_VALUE", var.name,
                             "tensor '" + Printable(var.name) + "' contains a negative variance, which " +
                                 context.Describe() + " cannot use");
    }
  }
  return OkStatus();
}

StatusOr<ValueId> LowerBatchNorm(const LayerContext& context, const std::string& channels, const std::string& inner) {
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels(channels));
  const int64_t width = context.input_width();
  BatchNormStep step;
  step.eps = context.args.Number("eps");
  VICINAL_ASSIGN_OR_RETURN(step.mean, context.Tensor(inner + "running_mean", {width}));
  VICINAL_ASSIGN_OR_RETURN(step.var, context.Tensor(inner + "running_var", {width}));
  VICINAL_RETURN_IF_ERROR(CheckVariance(*step.var, context));
  if (context.args.Bool("affine")) {
    VICINAL_ASSIGN_OR_RETURN(step.weight, context.Tensor(inner + "weight", {width}));
    VICINAL_ASSIGN_OR_RETURN(step.bias, context.Tensor(inner + "bias", {width}));
  }
  return context.steps.Emit(std::move(step), {context.input()}, width);
}

StatusOr<ValueId> LowerGeometricBatchNorm(const LayerContext& context) {
  return LowerBatchNorm(context, "in_channels", "module.");
}
StatusOr<ValueId> LowerTorchBatchNorm(const LayerContext& context) {
  return LowerBatchNorm(context, "num_features", "");
}

StatusOr<ValueId> LowerLayerNorm(const LayerContext& context) {
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t width = context.input_width();
  LayerNormStep step;
  step.per_node = context.args.Choice("mode") == "node";
  step.eps = context.args.Number("eps");
  if (!step.per_node && context.graph_level && context.nested) {
    return UnsupportedArgument(context.args.FieldOf("mode"),
                               context.Describe() +
                                   " with mode 'graph' inside another layer would mix the graphs of a batch, " +
                                   "as in PyTorch Geometric; answers would depend on the batch");
  }
  if (!step.per_node && context.steps.per_graph(context.input())) {
    return UnsupportedArgument(
        context.args.FieldOf("mode"),
        context.Describe() + " with mode 'graph' needs one row per node; after a readout use mode 'node'");
  }
  if (context.args.Bool("affine")) {
    VICINAL_ASSIGN_OR_RETURN(step.weight, context.Tensor("weight", {width}));
    VICINAL_ASSIGN_OR_RETURN(step.bias, context.Tensor("bias", {width}));
  }
  return context.steps.Emit(std::move(step), {context.input()}, width);
}

StatusOr<ValueId> LowerNormalize(const LayerContext& context) {
  return context.steps.Emit(NormalizeStep{}, {context.input()}, context.input_width());
}

LayerType BatchNormType(const char* name, const char* channels) {
  LayerType type;
  type.name = name;
  type.arguments = {InChannelsArgument(channels),
                    EpsArgument(),
                    IgnoredArgument("momentum"),
                    BoolArgument("affine", true),
                    RefusedArgument("track_running_stats", {true}, "answers would depend on the batch"),
                    IgnoredArgument("device")};
  type.nestable = true;
  return type;
}

}  // namespace

LayerType BatchNormLayer() {
  LayerType type = BatchNormType("BatchNorm", "in_channels");
  type.arguments.push_back(IgnoredArgument("allow_single_element"));
  type.lower = LowerGeometricBatchNorm;
  return type;
}

LayerType BatchNorm1dLayer() {
  LayerType type = BatchNormType("BatchNorm1d", "num_features");
  type.arguments.push_back(IgnoredArgument("dtype"));
  type.lower = LowerTorchBatchNorm;
  return type;
}

LayerType LayerNormLayer() {
  LayerType type;
  type.name = "LayerNorm";
  type.arguments = {InChannelsArgument("in_channels"), EpsArgument(), BoolArgument("affine", true),
                    ChoiceArgument("mode", "graph", {"graph", "node"}), IgnoredArgument("device")};
  type.nestable = true;
  type.lower = LowerLayerNorm;
  return type;
}

LayerType NormalizeLayer() {
  LayerType type;
  type.name = "Normalize";
  type.arguments = {RefusedArgument("p", {2, 2.0}, "rows are scaled by their Euclidean length"),
                    RefusedArgument("dim", {-1, 1}, "rows are scaled"),
                    RefusedArgument("eps", {1e-12}, "the smallest length is 1e-12")};
  type.nestable = true;
  type.lower = LowerNormalize;
  return type;
}

}  // namespace vicinal::internal

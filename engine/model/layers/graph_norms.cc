// SPDX-License-Identifier: Apache-2.0
// Norms by columns of a graph: GraphNorm (Cai et al. 2021), InstanceNorm (Ulyanov et al. 2016), PairNorm (Zhao and
// Akoglu 2020). Means are readouts whose rows are given back to the nodes. Variances are means of squared differences,
// in two passes, so that a large mean costs no digits.
#include <utility>
#include <vector>

#include "engine/model/layers/derived_weights.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

// An answer must not depend on the other graphs of a batch, and needs rows of nodes.
Status CheckRows(const LayerContext& context) {
  if (!context.graph_level || !context.nested) return OkStatus();
  return UnsupportedArgument(context.declaration.field,
                             context.Describe() + " inside another layer would mix the graphs of a batch, as in " +
                                 "PyTorch Geometric; answers would depend on the batch");
}

ValueId MeanOfGraph(const LayerContext& context, ValueId x) {
  return context.steps.Emit(ReadoutStep{Reduce::kMean}, {x}, context.steps.width(x));
}

ValueId Expanded(const LayerContext& context, ValueId per_graph) {
  return context.steps.Emit(ExpandStep{}, {per_graph}, context.steps.width(per_graph));
}

// x less its graph's mean, times `mean_scale` where that is given.
ValueId Centred(const LayerContext& context, const WeightRef& mean_scale) {
  const int64_t width = context.input_width();
  ValueId mean = MeanOfGraph(context, context.input());
  if (mean_scale != nullptr) mean = context.steps.Emit(ScaleStep{1.0, mean_scale}, {mean}, width);
  return context.steps.Emit(AddStep{1.0, -1.0}, {context.input(), Expanded(context, mean)}, width);
}

// The mean squares of each column, per graph.
ValueId MeanSquares(const LayerContext& context, ValueId x) {
  return MeanOfGraph(context, context.steps.Emit(MultiplyStep{}, {x, x}, context.steps.width(x)));
}

ValueId InverseRoot(const LayerContext& context, ValueId x) {
  const float eps = static_cast<float>(context.args.Number("eps"));
  return context.steps.Emit(ActivationStep{{ActivationKind::kInverseRoot, eps}}, {x}, context.steps.width(x));
}

// (x - mean) / sqrt(variance + eps) * weight + bias, each weight but eps optional.
ValueId Standardized(const LayerContext& context, const WeightRef& mean_scale, const WeightRef& weight,
                     const WeightRef& bias) {
  const int64_t width = context.input_width();
  const ValueId centred = Centred(context, mean_scale);
  ValueId factor = InverseRoot(context, MeanSquares(context, centred));
  if (weight != nullptr) factor = context.steps.Emit(ScaleStep{1.0, weight}, {factor}, width);
  const ValueId scaled = context.steps.Emit(MultiplyStep{}, {centred, Expanded(context, factor)}, width);
  return bias == nullptr ? scaled : context.steps.Emit(BiasStep{bias}, {scaled}, width);
}

StatusOr<ValueId> LowerGraphNorm(const LayerContext& context) {
  VICINAL_RETURN_IF_ERROR(CheckRows(context));
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t width = context.input_width();
  VICINAL_ASSIGN_OR_RETURN(WeightRef mean_scale, context.Tensor("mean_scale", {width}));
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("weight", {width}));
  VICINAL_ASSIGN_OR_RETURN(WeightRef bias, context.Tensor("bias", {width}));
  return Standardized(context, mean_scale, weight, bias);
}

StatusOr<ValueId> LowerInstanceNorm(const LayerContext& context) {
  VICINAL_RETURN_IF_ERROR(CheckRows(context));
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t width = context.input_width();
  WeightRef weight, bias;
  if (context.args.Bool("affine")) {
    VICINAL_ASSIGN_OR_RETURN(weight, context.Tensor("weight", {width}));
    VICINAL_ASSIGN_OR_RETURN(bias, context.Tensor("bias", {width}));
  }
  return Standardized(context, nullptr, weight, bias);
}

// All columns of a graph have one divisor: the root of the mean squared length of its rows.
StatusOr<ValueId> LowerPairNorm(const LayerContext& context) {
  VICINAL_RETURN_IF_ERROR(CheckRows(context));
  const int64_t width = context.input_width();
  const ValueId centred = Centred(context, nullptr);
  const ValueId lengths = context.steps.Emit(LinearStep{ConstantWeight(context, 1, width, 1.0f), nullptr},
                                             {MeanSquares(context, centred)}, 1);
  const WeightRef scale = ConstantWeight(context, width, 1, static_cast<float>(context.args.Number("scale")));
  const ValueId factor = context.steps.Emit(LinearStep{scale, nullptr}, {InverseRoot(context, lengths)}, width);
  return context.steps.Emit(MultiplyStep{}, {centred, Expanded(context, factor)}, width);
}

LayerType Norm(const char* name, std::vector<ArgumentSpec> arguments, StatusOr<ValueId> (*lower)(const LayerContext&)) {
  LayerType type;
  type.name = name;
  type.arguments = std::move(arguments);
  type.node_rows = true;
  type.nestable = true;
  type.lower = lower;
  return type;
}

}  // namespace

LayerType GraphNormLayer() {
  return Norm("GraphNorm", {InChannelsArgument("in_channels"), EpsArgument(), IgnoredArgument("device")},
              LowerGraphNorm);
}

LayerType InstanceNormLayer() {
  return Norm(
      "InstanceNorm",
      {InChannelsArgument("in_channels"), EpsArgument(), IgnoredArgument("momentum"), BoolArgument("affine", false),
       RefusedArgument("track_running_stats", {false}, "use BatchNorm: it computes the same and has these tensors"),
       IgnoredArgument("device")},
      LowerInstanceNorm);
}

LayerType PairNormLayer() {
  return Norm("PairNorm",
              {NumberArgument("scale", 1.0, -1e6, 1e6),
               RefusedArgument("scale_individually", {false}, "rows of a graph have one divisor"), EpsArgument()},
              LowerPairNorm);
}

}  // namespace vicinal::internal

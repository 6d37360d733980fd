// SPDX-License-Identifier: Apache-2.0
// Norms of each row by itself: RMSNorm (Zhang and Sennrich 2019), MessageNorm (Li et al. 2020) and DiffGroupNorm (Zhou
// et al. 2020). Sums over columns are products with ones.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/model/layers/derived_weights.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

// `factor` times the sum of a row's squares, one column.
ValueId Squares(const LayerContext& context, ValueId x, double factor) {
  const int64_t width = context.steps.width(x);
  const ValueId squares = context.steps.Emit(MultiplyStep{}, {x, x}, width);
  return context.steps.Emit(LinearStep{ConstantWeight(context, 1, width, static_cast<float>(factor)), nullptr},
                            {squares}, 1);
}

// x times kind(eps + the sum of squares), that one column being repeated.
ValueId TimesColumn(const LayerContext& context, ValueId x, ValueId column, Activation activation) {
  const int64_t width = context.steps.width(x);
  const ValueId activated = context.steps.Emit(ActivationStep{activation}, {column}, 1);
  const ValueId repeated =
      context.steps.Emit(LinearStep{ConstantWeight(context, width, 1, 1.0f), nullptr}, {activated}, width);
  return context.steps.Emit(MultiplyStep{}, {x, repeated}, width);
}

StatusOr<ValueId> LowerRmsNorm(const LayerContext& context) {
  const int64_t width = context.input_width();
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("normalized_shape"));
  // torch.nn takes the distance from 1 to the next float32.
  const double eps = context.args.IsNull("eps") ? 0x1p-23 : context.args.Number("eps");
  const ValueId squares = Squares(context, context.input(), 1.0 / static_cast<double>(width));
  const ValueId normed =
      TimesColumn(context, context.input(), squares, {ActivationKind::kInverseRoot, static_cast<float>(eps)});
  if (!context.args.Bool("elementwise_affine")) return normed;
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("weight", {width}));
  return context.steps.Emit(ScaleStep{1.0, weight}, {normed}, width);
}

// Inputs: x, and the message, which takes the length of x.
StatusOr<ValueId> LowerMessageNorm(const LayerContext& context) {
  const int64_t width = context.input_width();
  const ValueId message = context.inputs[1];
  if (context.steps.width(message) != width) {
    return BadArchitecture(context.declaration.field + ".inputs",
                           context.Describe() + " needs inputs of one width, but they have " + std::to_string(width) +
                               " and " + std::to_string(context.steps.width(message)) + " columns");
  }
  VICINAL_ASSIGN_OR_RETURN(WeightRef scale, context.Tensor("scale", {1}));
  const ValueId unit = context.steps.Emit(NormalizeStep{}, {message}, width);
  const ValueId scaled = TimesColumn(context, unit, Squares(context, context.input(), 1.0), {ActivationKind::kRoot});
  return context.steps.Emit(ScaleStep{static_cast<double>(scale->values[0]), nullptr}, {scaled}, width);
}

// What BatchNorm makes of the columns of all groups: group g's column c becomes scale[g, c] x + shift[g, c].
struct GroupScales {
  WeightRef scale;  // [width, groups]
  WeightRef shift;  // [width], of all groups, times lambda
};
StatusOr<GroupScales> ReadGroups(const LayerContext& context, int64_t groups, double lambda) {
  const int64_t width = context.input_width(), all = groups * width;
  VICINAL_ASSIGN_OR_RETURN(const WeightRef mean, context.Tensor("norm.running_mean", {all}));
  VICINAL_ASSIGN_OR_RETURN(const WeightRef var, context.Tensor("norm.running_var", {all}));
  WeightRef weight, bias;
  if (context.args.Bool("affine")) {
    VICINAL_ASSIGN_OR_RETURN(weight, context.Tensor("norm.weight", {all}));
    VICINAL_ASSIGN_OR_RETURN(bias, context.Tensor("norm.bias", {all}));
  }
  if (std::any_of(var->values.begin(), var->values.end(), [](float value) { return value < 0.0f; })) {
    return InvalidArgument("TENSOR_VALUE", var->name,
                           "tensor '" + Printable(var->name) + "' contains a negative variance, which " +
                               context.Describe() + " cannot use");
  }
  const auto factor = [&](int64_t i) {
    return (weight != nullptr ? weight->values[i] : 1.0) /
           std::sqrt(static_cast<double>(var->values[i]) + context.args.Number("eps"));
  };
  const std::string key = " of " + var->name + " with eps " + context.args.Raw("eps").dump() + ", lamda " +
                          context.args.Raw("lamda").dump() + (weight != nullptr ? " and weights" : "");
  GroupScales made;
  made.scale = context.tensors.Make("scales" + key, {width, groups}, [&](std::vector<float>& values) {
    for (int64_t i = 0; i < all; ++i) values[i % width * groups + i / width] = static_cast<float>(factor(i));
  });
  made.shift = context.tensors.Make("shifts" + key, {width}, [&](std::vector<float>& values) {
    for (int64_t c = 0; c < width; ++c) {
      double total = 0.0;
      for (int64_t i = c; i < all; i += width)
        total += (bias != nullptr ? bias->values[i] : 0.0) - mean->values[i] * factor(i);
      values[c] = static_cast<float>(lambda * total);
    }
  });
  return made;
}

// out = x + lambda sum_g BatchNorm_g(s_g x) for s = softmax(x W^T). BatchNorm is affine, so the sum is x times s S^T,
// plus a vector.
StatusOr<ValueId> LowerDiffGroupNorm(const LayerContext& context) {
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t width = context.input_width(), groups = context.args.Int("groups");
  const double lambda = context.args.Number("lamda");
  VICINAL_ASSIGN_OR_RETURN(WeightRef assign, context.Tensor("lin.weight", {groups, width}));
  VICINAL_ASSIGN_OR_RETURN(GroupScales scales, ReadGroups(context, groups, lambda));
  const ValueId logits = context.steps.Emit(LinearStep{assign, nullptr}, {context.input()}, groups);
  const ValueId shares = context.steps.Emit(SoftmaxStep{}, {logits}, groups);
  const ValueId factors = context.steps.Emit(LinearStep{scales.scale, nullptr}, {shares}, width);
  const ValueId product = context.steps.Emit(MultiplyStep{}, {context.input(), factors}, width);
  const ValueId sum = context.steps.Emit(AddStep{1.0, lambda}, {context.input(), product}, width);
  return context.steps.Emit(BiasStep{scales.shift}, {sum}, width);
}

}  // namespace

LayerType RmsNormLayer() {
  LayerType type;
  type.name = "RMSNorm";
  ArgumentSpec eps = NumberArgument("eps", 0.0, 1e-12, 1.0);
  eps.default_value = nullptr;
  type.arguments = {InChannelsArgument("normalized_shape"), eps, BoolArgument("elementwise_affine", true),
                    IgnoredArgument("device"), IgnoredArgument("dtype")};
  type.nestable = true;
  type.lower = LowerRmsNorm;
  return type;
}

LayerType MessageNormLayer() {
  LayerType type;
  type.name = "MessageNorm";
  type.arguments = {IgnoredArgument("learn_scale"), IgnoredArgument("device")};
  type.min_inputs = type.max_inputs = 2;
  type.lower = LowerMessageNorm;
  return type;
}

LayerType DiffGroupNormLayer() {
  LayerType type;
  type.name = "DiffGroupNorm";
  type.arguments = {InChannelsArgument("in_channels"),
                    RequiredIntArgument("groups", 1, 1024),
                    NumberArgument("lamda", 0.01, -1e6, 1e6),
                    EpsArgument(),
                    IgnoredArgument("momentum"),
                    BoolArgument("affine", true),
                    RefusedArgument("track_running_stats", {true}, "answers would depend on the batch"),
                    IgnoredArgument("device")};
  type.nestable = true;
  type.lower = LowerDiffGroupNorm;
  return type;
}

}  // namespace vicinal::internal

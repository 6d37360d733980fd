// SPDX-License-Identifier: Apache-2.0
// Activations of torch.nn, and the two layers that do nothing when answering: Dropout and Identity. Kinds that follow
// from others are lowered to several steps.
#include <cmath>
#include <limits>
#include <utility>

#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

ValueId Activate(const LayerContext& context, ValueId x, ActivationKind kind, double slope = 0.0, double limit = 0.0) {
  return context.steps.Emit(ActivationStep{{kind, static_cast<float>(slope), static_cast<float>(limit)}}, {x},
                            context.steps.width(x));
}

ValueId Scale(const LayerContext& context, ValueId x, double factor) {
  return factor == 1.0 ? x : context.steps.Emit(ScaleStep{factor, nullptr}, {x}, context.steps.width(x));
}

// A kind without parameters.
template <ActivationKind kKind>
StatusOr<ValueId> Lower(const LayerContext& context) {
  return Activate(context, context.input(), kKind);
}

StatusOr<ValueId> LowerElu(const LayerContext& context) {
  return Activate(context, context.input(), ActivationKind::kElu, context.args.Number("alpha"));
}
// alpha ELU(x / alpha).
StatusOr<ValueId> LowerCelu(const LayerContext& context) {
  const double alpha = context.args.Number("alpha");
  const ValueId scaled = Scale(context, context.input(), 1.0 / alpha);
  return Scale(context, Activate(context, scaled, ActivationKind::kElu, 1.0), alpha);
}
// The constants with which activations tend to mean 0 and variance 1 (Klambauer et al. 2017), as in PyTorch.
StatusOr<ValueId> LowerSelu(const LayerContext& context) {
  return Scale(context, Activate(context, context.input(), ActivationKind::kElu, 1.6732632423543772848170429916717),
               1.0507009873554804934193349852946);
}
StatusOr<ValueId> LowerLeakyRelu(const LayerContext& context) {
  return Activate(context, context.input(), ActivationKind::kLeakyRelu, context.args.Number("negative_slope"));
}
// When answering, the slope is the mean of those drawn in training.
StatusOr<ValueId> LowerRrelu(const LayerContext& context) {
  const double lower = context.args.Number("lower"), upper = context.args.Number("upper");
  if (lower > upper) {
    return BadArchitecture(context.args.FieldOf("upper"), context.Describe() + " needs lower <= upper");
  }
  return Activate(context, context.input(), ActivationKind::kLeakyRelu, (lower + upper) / 2);
}
// max(x, 0) + w min(x, 0), one w per column.
StatusOr<ValueId> LowerPrelu(const LayerContext& context) {
  const int64_t count = context.args.Int("num_parameters"), width = context.input_width();
  if (count != 1 && count != width) {
    return BadArchitecture(context.args.FieldOf("num_parameters"),
                           context.Describe() + " has num_parameters " + std::to_string(count) + "; it must be 1 or " +
                               std::to_string(width) + ", the width of its input");
  }
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("weight", {count}));
  if (count == 1) return Activate(context, context.input(), ActivationKind::kLeakyRelu, weight->values[0]);
  const ValueId above = Activate(context, context.input(), ActivationKind::kRelu);
  const ValueId below =
      Activate(context, context.input(), ActivationKind::kClamp, -std::numeric_limits<double>::infinity(), 0.0);
  const ValueId scaled = context.steps.Emit(ScaleStep{1.0, weight}, {below}, width);
  return context.steps.Emit(AddStep{}, {above, scaled}, width);
}
StatusOr<ValueId> LowerGelu(const LayerContext& context) {
  const bool exact = context.args.Choice("approximate") == "none";
  return Activate(context, context.input(), exact ? ActivationKind::kGelu : ActivationKind::kGeluTanh);
}
StatusOr<ValueId> LowerSoftplus(const LayerContext& context) {
  const double beta = context.args.Number("beta");
  const ValueId scaled = Scale(context, context.input(), beta);
  return Scale(context, Activate(context, scaled, ActivationKind::kSoftplus, context.args.Number("threshold")),
               1.0 / beta);
}
// -Softplus(-x), without a threshold.
StatusOr<ValueId> LowerLogSigmoid(const LayerContext& context) {
  const ValueId negated = Scale(context, context.input(), -1.0);
  return Scale(context, Activate(context, negated, ActivationKind::kSoftplus, std::numeric_limits<double>::infinity()),
               -1.0);
}
StatusOr<ValueId> LowerRelu6(const LayerContext& context) {
  return Activate(context, context.input(), ActivationKind::kClamp, 0.0, 6.0);
}
StatusOr<ValueId> LowerHardtanh(const LayerContext& context) {
  const double low = context.args.Number("min_val"), high = context.args.Number("max_val");
  if (low >= high) {
    return BadArchitecture(context.args.FieldOf("max_val"), context.Describe() + " needs min_val < max_val");
  }
  return Activate(context, context.input(), ActivationKind::kClamp, low, high);
}
StatusOr<ValueId> LowerThreshold(const LayerContext& context) {
  return Activate(context, context.input(), ActivationKind::kThreshold, context.args.Number("threshold"),
                  context.args.Number("value"));
}
StatusOr<ValueId> LowerHardshrink(const LayerContext& context) {
  return Activate(context, context.input(), ActivationKind::kHardShrink, context.args.Number("lambd"));
}
// x less what of it lies between -lambda and lambda.
StatusOr<ValueId> LowerSoftshrink(const LayerContext& context) {
  const double lambda = context.args.Number("lambd");
  const ValueId inside = Activate(context, context.input(), ActivationKind::kClamp, -lambda, lambda);
  return context.steps.Emit(AddStep{1.0, -1.0}, {context.input(), inside}, context.input_width());
}
StatusOr<ValueId> LowerTanhshrink(const LayerContext& context) {
  const ValueId tanh = Activate(context, context.input(), ActivationKind::kTanh);
  return context.steps.Emit(AddStep{1.0, -1.0}, {context.input(), tanh}, context.input_width());
}
// The first half of the columns times the sigmoid of the second.
StatusOr<ValueId> LowerGlu(const LayerContext& context) {
  const int64_t width = context.input_width(), half = width / 2;
  if (width % 2 != 0) {
    return BadArchitecture(context.declaration.field, context.Describe() + " halves its input, which has " +
                                                          std::to_string(width) + " columns, an odd number");
  }
  const ValueId value = context.steps.Emit(SliceStep{0}, {context.input()}, half);
  const ValueId gate = context.steps.Emit(SliceStep{half}, {context.input()}, half);
  return context.steps.Emit(MultiplyStep{}, {value, Activate(context, gate, ActivationKind::kSigmoid)}, half);
}

template <bool kLogarithm>
StatusOr<ValueId> LowerSoftmax(const LayerContext& context) {
  return context.steps.Emit(SoftmaxStep{kLogarithm}, {context.input()}, context.input_width());
}
StatusOr<ValueId> LowerSoftmin(const LayerContext& context) {
  return context.steps.Emit(SoftmaxStep{false}, {Scale(context, context.input(), -1.0)}, context.input_width());
}
StatusOr<ValueId> LowerNothing(const LayerContext& context) { return context.input(); }

LayerType Type(const char* name, std::vector<ArgumentSpec> arguments, StatusOr<ValueId> (*lower)(const LayerContext&)) {
  LayerType type;
  type.name = name;
  type.arguments = std::move(arguments);
  type.nestable = true;
  type.lower = lower;
  return type;
}

ArgumentSpec InPlace() { return IgnoredArgument("inplace"); }

// PyTorch's default, null, is the last dimension of a matrix.
ArgumentSpec RowDimension() {
  return RefusedArgument("dim", {nullptr, -1, 1}, "only rows are possible; an answer would depend on other nodes");
}

ArgumentSpec RequiredNumber(const char* name, double minimum, double maximum) {
  ArgumentSpec spec = NumberArgument(name, 0.0, minimum, maximum);
  spec.required = true;
  return spec;
}

constexpr double kMost = 1e6;

}  // namespace

std::vector<LayerType> ActivationLayers() {
  return {
      Type("ReLU", {InPlace()}, Lower<ActivationKind::kRelu>),
      Type("ReLU6", {InPlace()}, LowerRelu6),
      Type("ELU", {NumberArgument("alpha", 1.0, 0.0, kMost), InPlace()}, LowerElu),
      Type("CELU", {NumberArgument("alpha", 1.0, 1e-6, kMost), InPlace()}, LowerCelu),
      Type("SELU", {InPlace()}, LowerSelu),
      Type("LeakyReLU", {NumberArgument("negative_slope", 0.01, 0.0, 1.0), InPlace()}, LowerLeakyRelu),
      Type("RReLU", {NumberArgument("lower", 1.0 / 8, 0.0, 1.0), NumberArgument("upper", 1.0 / 3, 0.0, 1.0), InPlace()},
           LowerRrelu),
      Type("PReLU",
           {IntArgument("num_parameters", 1, 1, kMaxWidth), IgnoredArgument("init"), IgnoredArgument("device"),
            IgnoredArgument("dtype")},
           LowerPrelu),
      Type("GELU", {ChoiceArgument("approximate", "none", {"none", "tanh"})}, LowerGelu),
      Type("SiLU", {InPlace()}, Lower<ActivationKind::kSilu>),
      Type("Mish", {InPlace()}, Lower<ActivationKind::kMish>),
      Type("Softplus", {NumberArgument("beta", 1.0, 1e-6, kMost), NumberArgument("threshold", 20.0, -kMost, kMost)},
           LowerSoftplus),
      Type("Softsign", {}, Lower<ActivationKind::kSoftsign>),
      Type("Sigmoid", {}, Lower<ActivationKind::kSigmoid>),
      Type("LogSigmoid", {}, LowerLogSigmoid),
      Type("Tanh", {}, Lower<ActivationKind::kTanh>),
      Type("Tanhshrink", {}, LowerTanhshrink),
      Type("Hardtanh",
           {NumberArgument("min_val", -1.0, -kMost, kMost), NumberArgument("max_val", 1.0, -kMost, kMost), InPlace()},
           LowerHardtanh),
      Type("Hardsigmoid", {InPlace()}, Lower<ActivationKind::kHardSigmoid>),
      Type("Hardswish", {InPlace()}, Lower<ActivationKind::kHardSwish>),
      Type("Hardshrink", {NumberArgument("lambd", 0.5, 0.0, kMost)}, LowerHardshrink),
      Type("Softshrink", {NumberArgument("lambd", 0.5, 0.0, kMost)}, LowerSoftshrink),
      Type("Threshold", {RequiredNumber("threshold", -kMost, kMost), RequiredNumber("value", -kMost, kMost), InPlace()},
           LowerThreshold),
      Type("GLU", {RowDimension()}, LowerGlu),
      Type("Softmax", {RowDimension()}, LowerSoftmax<false>),
      Type("LogSoftmax", {RowDimension()}, LowerSoftmax<true>),
      Type("Softmin", {RowDimension()}, LowerSoftmin),
      Type("Identity", {}, LowerNothing),
      Type("Dropout", {IgnoredArgument("p"), InPlace()}, LowerNothing),
  };
}

}  // namespace vicinal::internal

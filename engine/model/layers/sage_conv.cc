// SPDX-License-Identifier: Apache-2.0
// SAGEConv (Hamilton et al. 2017): out = reduce_{j -> i}(x_j) W_l^T + b_l + x_i W_r^T, optionally over relu(x W^T + b)
// of the neighbours (project) and scaled to length 1 (normalize). Several reductions stand side by side. Loops and
// duplicates count as sent; no in-edges: 0.
#include <string>
#include <utility>
#include <vector>

#include "engine/base/printable.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

using Json = nlohmann::json;

constexpr char kAggregations[] = "mean, max, min, sum, add, std, var";

ValueId Reduced(const LayerContext& context, Reduce reduce, ValueId x) {
  PropagateStep propagate;
  propagate.reduce = reduce;
  return context.steps.Emit(propagate, {x}, context.steps.width(x));
}

// The mean of the squares less the square of the mean, as PyTorch Geometric has it.
ValueId Variance(const LayerContext& context, ValueId x) {
  const int64_t width = context.steps.width(x);
  const ValueId mean = Reduced(context, Reduce::kMean, x);
  const ValueId squares = Reduced(context, Reduce::kMean, context.steps.Emit(MultiplyStep{}, {x, x}, width));
  return context.steps.Emit(AddStep{-1.0, 1.0}, {context.steps.Emit(MultiplyStep{}, {mean, mean}, width), squares},
                            width);
}

// Deviations below the root of 1e-5 count as 0.
ValueId Deviation(const LayerContext& context, ValueId x) {
  const int64_t width = context.steps.width(x);
  const ValueId kept =
      context.steps.Emit(ActivationStep{{ActivationKind::kThreshold, 1e-5f, 0.0f}}, {Variance(context, x)}, width);
  return context.steps.Emit(ActivationStep{{ActivationKind::kRoot}}, {kept}, width);
}

StatusOr<ValueId> Aggregated(const LayerContext& context, const Json& name, const std::string& field, ValueId x) {
  if (name == "mean") return Reduced(context, Reduce::kMean, x);
  if (name == "max") return Reduced(context, Reduce::kMax, x);
  if (name == "min") return Reduced(context, Reduce::kMin, x);
  if (name == "sum" || name == "add") return Reduced(context, Reduce::kSum, x);
  if (name == "std") return Deviation(context, x);
  if (name == "var") return Variance(context, x);
  return UnsupportedArgument(field, "SAGEConv's argument 'aggr' is " +
                                        Printable(name.dump(-1, ' ', true, Json::error_handler_t::replace)) +
                                        "; supported: " + kAggregations + ", and lists of them");
}

// One aggregation, or those of a list side by side.
StatusOr<ValueId> AllAggregated(const LayerContext& context, ValueId x) {
  constexpr size_t kMaxAggregations = 64;
  const Json& aggr = context.args.Raw("aggr");
  const std::string field = context.args.FieldOf("aggr");
  if (!aggr.is_array()) return Aggregated(context, aggr, field, x);
  if (aggr.empty() || aggr.size() > kMaxAggregations) {
    return BadArchitecture(field, field + " must list 1 to " + std::to_string(kMaxAggregations) + " aggregations");
  }
  std::vector<ValueId> values;
  for (size_t i = 0; i < aggr.size(); ++i) {
    const std::string path = field + "[" + std::to_string(i) + "]";
    VICINAL_ASSIGN_OR_RETURN(const ValueId value, Aggregated(context, aggr[i], path, x));
    values.push_back(value);
  }
  if (values.size() == 1) return values[0];
  const int64_t width = context.steps.width(x) * static_cast<int64_t>(values.size());
  if (width > kMaxWidth) {
    return BadArchitecture(field, context.Describe() + " would aggregate " + std::to_string(width) +
                                      " columns; at most " + std::to_string(kMaxWidth) + " are supported");
  }
  return context.steps.Emit(ConcatStep{}, std::move(values), width);
}

StatusOr<ValueId> LowerSage(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t in = context.input_width(), out = args.Int("out_channels");
  ValueId value = context.input();
  if (args.Bool("project")) {
    VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("lin.weight", {in, in}));
    VICINAL_ASSIGN_OR_RETURN(WeightRef bias, context.Tensor("lin.bias", {in}));
    value = context.steps.Emit(LinearStep{weight, bias}, {value}, in);
    value = context.steps.Emit(ActivationStep{{ActivationKind::kRelu, 0.0f}}, {value}, in);
  }
  VICINAL_ASSIGN_OR_RETURN(value, AllAggregated(context, value));
  VICINAL_ASSIGN_OR_RETURN(WeightRef left, context.Tensor("lin_l.weight", {out, context.steps.width(value)}));
  WeightRef bias;
  if (args.Bool("bias")) {
    VICINAL_ASSIGN_OR_RETURN(bias, context.Tensor("lin_l.bias", {out}));
  }
  value = context.steps.Emit(LinearStep{left, bias}, {value}, out);
  if (args.Bool("root_weight")) {
    VICINAL_ASSIGN_OR_RETURN(WeightRef right, context.Tensor("lin_r.weight", {out, in}));
    const ValueId root = context.steps.Emit(LinearStep{right, nullptr}, {context.input()}, out);
    value = context.steps.Emit(AddStep{}, {value, root}, out);
  }
  if (args.Bool("normalize")) value = context.steps.Emit(NormalizeStep{}, {value}, out);
  return value;
}

}  // namespace

LayerType SageConv() {
  LayerType type;
  type.name = "SAGEConv";
  type.arguments = {InChannelsArgument("in_channels"), RequiredIntArgument("out_channels", 1, kMaxWidth),
                    AnyArgument("aggr", "mean"),       BoolArgument("normalize", false),
                    BoolArgument("root_weight", true), BoolArgument("project", false),
                    BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(false), &type.arguments);
  type.convolution = true;
  type.lower = LowerSage;
  return type;
}

}  // namespace vicinal::internal

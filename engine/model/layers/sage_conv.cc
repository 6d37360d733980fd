// SPDX-License-Identifier: Apache-2.0
// SAGEConv (Hamilton et al. 2017): out = reduce_{j -> i}(x_j) W_l^T + b_l + x_i W_r^T, optionally over relu(x W^T + b)
// of the neighbours (project) and scaled to length 1 (normalize). Loops and duplicates count as sent; no in-edges: 0.
#include <utility>

#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

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
  PropagateStep propagate;
  propagate.reduce = args.Aggr();
  value = context.steps.Emit(propagate, {value}, in);
  VICINAL_ASSIGN_OR_RETURN(WeightRef left, context.Tensor("lin_l.weight", {out, in}));
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
  type.arguments = {InChannelsArgument("in_channels"),
                    RequiredIntArgument("out_channels", 1, kMaxWidth),
                    AggrArgument("mean"),
                    BoolArgument("normalize", false),
                    BoolArgument("root_weight", true),
                    BoolArgument("project", false),
                    BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(false), &type.arguments);
  type.convolution = true;
  type.lower = LowerSage;
  return type;
}

}  // namespace vicinal::internal

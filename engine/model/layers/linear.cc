// SPDX-License-Identifier: Apache-2.0
// Linear, torch.nn's or torch_geometric.nn's: out = x W^T + b.
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

// The width under either library's name for it.
StatusOr<int64_t> OutWidth(const LayerContext& context) {
  const Arguments& args = context.args;
  const bool geometric = !args.IsNull("out_channels"), torch = !args.IsNull("out_features");
  if (geometric == torch) {
    return BadArchitecture(args.FieldOf("out_channels"),
                           context.Describe() + " needs either out_channels or out_features");
  }
  return args.Int(geometric ? "out_channels" : "out_features");
}

StatusOr<ValueId> LowerLinear(const LayerContext& context) {
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_features"));
  VICINAL_ASSIGN_OR_RETURN(const int64_t out, OutWidth(context));
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("weight", {out, context.input_width()}));
  WeightRef bias;
  if (context.args.Bool("bias")) {
    VICINAL_ASSIGN_OR_RETURN(bias, context.Tensor("bias", {out}));
  }
  return context.steps.Emit(LinearStep{weight, bias}, {context.input()}, out);
}

}  // namespace

LayerType LinearLayer() {
  LayerType type;
  type.name = "Linear";
  type.arguments = {InChannelsArgument("in_channels"),
                    IntArgument("out_channels", nullptr, 1, kMaxWidth),
                    InChannelsArgument("in_features"),
                    IntArgument("out_features", nullptr, 1, kMaxWidth),
                    BoolArgument("bias", true),
                    IgnoredArgument("weight_initializer"),
                    IgnoredArgument("bias_initializer"),
                    IgnoredArgument("device"),
                    IgnoredArgument("dtype")};
  type.nestable = true;
  type.lower = LowerLinear;
  return type;
}

}  // namespace vicinal::internal

// SPDX-License-Identifier: Apache-2.0
// GENConv (Li et al. 2020): out = mlp(reduce_{j -> i}(relu(x_j + e_ij) + eps) + x_i), with products of x and e where
// widths differ, and MessageNorm around the reduction. relu(z) + eps is max(z + eps, eps). Loops and duplicates count
// as sent; no in-edges: reduces to 0.
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/layers/derived_weights.h"
#include "engine/model/layers/edge_features.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

using Json = nlohmann::json;

StatusOr<double> Temperature(const LayerContext& context) {
  if (!context.args.Bool("learn_t")) return context.args.Number("t");
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("aggr_module.t", {1}));
  return static_cast<double>(weight->values[0]);
}

Status ReadAggregation(const LayerContext& context, EdgeMessageStep* step) {
  const std::string aggr = context.args.Choice("aggr");
  if (aggr == "softmax" || aggr == "softmax_sg") {
    step->softmax = true;
    VICINAL_ASSIGN_OR_RETURN(step->temperature, Temperature(context));
  } else if (aggr == "powermean" || aggr == "power") {
    const bool learned = context.args.Bool("learn_p");
    if (learned || context.args.Number("p") != 1.0)
      return UnsupportedArgument(context.args.FieldOf(learned ? "learn_p" : "p"),
                                 context.Describe() +
                                     " has a power mean of another power than 1, or of a learned "
                                     "one; supported: p 1, the mean. Train with aggr \"softmax\"");
    step->reduce = Reduce::kMean;
  } else {
    step->reduce = aggr == "mean"  ? Reduce::kMean
                   : aggr == "max" ? Reduce::kMax
                   : aggr == "min" ? Reduce::kMin
                                   : Reduce::kSum;
  }
  return OkStatus();
}

// The input, or its product `name` where its width is another one.
StatusOr<ValueId> Fitted(const LayerContext& context, const std::string& name, int64_t out) {
  const int64_t in = context.input_width();
  if (in == out) return context.input();
  LinearStep linear;
  VICINAL_ASSIGN_OR_RETURN(linear.weight, context.Tensor(name + ".weight", {out, in}));
  if (context.args.Bool("bias")) {
    VICINAL_ASSIGN_OR_RETURN(linear.bias, context.Tensor(name + ".bias", {out}));
  }
  return context.steps.Emit(std::move(linear), {context.input()}, out);
}

StatusOr<ValueId> GenMessages(const LayerContext& context, int64_t out) {
  EdgeMessageStep step;
  VICINAL_RETURN_IF_ERROR(ReadAggregation(context, &step));
  VICINAL_ASSIGN_OR_RETURN(ValueId source, Fitted(context, "lin_src", out));
  step.edge_width = EdgeDim(context);
  if (step.edge_width > 0 && step.edge_width != out) {
    VICINAL_ASSIGN_OR_RETURN(step.edge_weight, context.Tensor("lin_edge.weight", {out, step.edge_width}));
    if (context.args.Bool("bias")) {
      VICINAL_ASSIGN_OR_RETURN(step.edge_bias, context.Tensor("lin_edge.bias", {out}));
    }
  }
  const auto eps = static_cast<float>(context.args.Number("eps"));
  source = context.steps.Emit(BiasStep{ConstantVector(context, out, eps)}, {source}, out);
  const Activation at_least_eps = {ActivationKind::kClamp, eps, std::numeric_limits<float>::infinity()};
  if (step.edge_width > 0 || step.softmax) {
    step.activation = at_least_eps;
    return context.steps.Emit(std::move(step), {source}, out);
  }
  PropagateStep propagate;
  propagate.reduce = step.reduce;
  return context.steps.Emit(propagate, {context.steps.Emit(ActivationStep{at_least_eps}, {source}, out)}, out);
}

// A layer of another type under `prefix`.
LayerDeclaration PartOf(const LayerContext& context, const char* type, const std::string& prefix, Json args) {
  LayerDeclaration layer;
  layer.type = type;
  layer.prefix = context.declaration.prefix + prefix;
  layer.args = std::move(args);
  layer.field = context.declaration.field;
  layer.args_field = context.args.field();
  return layer;
}

// The torch.nn.Sequential `mlp`: Linear, norm, ReLU and Dropout for each layer but the last, which is a Linear.
StatusOr<ValueId> LowerMlp(const LayerContext& context, ValueId value, int64_t out) {
  const Arguments& args = context.args;
  const Json& norm = args.Raw("norm");
  if (!norm.is_null() && norm != "batch" && norm != "layer")
    return UnsupportedArgument(args.FieldOf("norm"), context.Describe() +
                                                         " has a norm that is not supported; supported: \"batch\", "
                                                         "\"layer\" and null");
  int64_t module = 0;
  const auto add = [&](const char* type, Json own) -> Status {
    const LayerDeclaration part = PartOf(context, type, "mlp." + std::to_string(module++) + ".", std::move(own));
    VICINAL_ASSIGN_OR_RETURN(
        value, LowerLayer(part, {value}, context.steps, context.tensors, context.graph_level, true, nullptr));
    return OkStatus();
  };
  const int64_t layers = args.Int("num_layers");
  for (int64_t i = 1; i <= layers; ++i) {
    const int64_t width = i < layers ? out * args.Int("expansion") : out;
    VICINAL_RETURN_IF_ERROR(add("Linear", {{"out_channels", width}, {"bias", args.Bool("bias")}}));
    if (i == layers) break;
    if (norm == "batch") VICINAL_RETURN_IF_ERROR(add("BatchNorm1d", Json::object()));
    if (norm == "layer") VICINAL_RETURN_IF_ERROR(add("LayerNorm", {{"mode", "node"}}));
    VICINAL_RETURN_IF_ERROR(add("ReLU", Json::object()));
    ++module;  // Dropout
  }
  return value;
}

StatusOr<ValueId> LowerGen(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t out = args.Int("out_channels");
  VICINAL_ASSIGN_OR_RETURN(ValueId value, GenMessages(context, out));
  if (args.Bool("msg_norm")) {
    VICINAL_ASSIGN_OR_RETURN(
        value, LowerLayer(PartOf(context, "MessageNorm", "msg_norm.", Json::object()), {context.input(), value},
                          context.steps, context.tensors, context.graph_level, false, nullptr));
  }
  VICINAL_ASSIGN_OR_RETURN(const ValueId own, Fitted(context, "lin_dst", out));
  value = context.steps.Emit(AddStep{}, {value, own}, out);
  return LowerMlp(context, value, out);
}

}  // namespace

LayerType GenConv() {
  constexpr int64_t kMaxLayers = 64, kMaxExpansion = 64;
  LayerType type;
  type.name = "GENConv";
  type.arguments = {InChannelsArgument("in_channels"),
                    RequiredIntArgument("out_channels", 1, kMaxWidth / kMaxExpansion),
                    ChoiceArgument("aggr", "softmax",
                                   {"softmax", "softmax_sg", "powermean", "power", "add", "sum", "mean", "max", "min"}),
                    NumberArgument("t", 1.0, -1e6, 1e6),
                    BoolArgument("learn_t", false),
                    NumberArgument("p", 1.0, -1e6, 1e6),
                    BoolArgument("learn_p", false),
                    BoolArgument("msg_norm", false),
                    IgnoredArgument("learn_msg_scale"),
                    AnyArgument("norm", "batch"),
                    IntArgument("num_layers", 2, 1, kMaxLayers),
                    IntArgument("expansion", 2, 1, kMaxExpansion),
                    NumberArgument("eps", 1e-7, 0.0, 1e6),
                    BoolArgument("bias", false),
                    EdgeDimArgument()};
  AddArguments(MessagePassingArguments(false), &type.arguments);
  type.convolution = true;
  type.lower = LowerGen;
  return type;
}

}  // namespace vicinal::internal

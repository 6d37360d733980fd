// SPDX-License-Identifier: Apache-2.0
// CGConv (Xie and Grossman 2018): out_i = BatchNorm(reduce_{j -> i} sigmoid(z W_f^T + b_f) * softplus(z W_s^T + b_s)) +
// x_i for z = [x_i, x_j, e_ij]. Products with x_i and x_j are formed per node. Loops and duplicates count as sent; no
// in-edges: reduces to 0.
#include <utility>
#include <vector>

#include "engine/model/layers/derived_weights.h"
#include "engine/model/layers/edge_features.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

// torch's: x itself above that.
constexpr float kSoftplusThreshold = 20.0f;

StatusOr<ValueId> Normed(const LayerContext& context, ValueId value) {
  LayerDeclaration norm;
  norm.type = "BatchNorm1d";
  norm.prefix = context.declaration.prefix + "bn.";
  norm.field = context.declaration.field;
  norm.args_field = context.args.FieldOf("batch_norm");
  return LowerLayer(norm, {value}, context.steps, context.tensors, context.graph_level, true, nullptr);
}

StatusOr<ValueId> LowerCg(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("channels"));
  const int64_t width = context.input_width(), features = args.Int("dim");
  std::vector<WeightRef> weights, biases;
  for (const char* name : {"lin_f", "lin_s"}) {
    const std::string tensor = name;
    VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor(tensor + ".weight", {width, 2 * width + features}));
    weights.push_back(std::move(weight));
    if (!args.Bool("bias")) continue;
    VICINAL_ASSIGN_OR_RETURN(WeightRef bias, context.Tensor(tensor + ".bias", {width}));
    biases.push_back(std::move(bias));
  }
  const auto product = [&](int64_t first, WeightRef bias) {
    const WeightRef weight = StackedColumns(context, weights, first, width);
    return context.steps.Emit(LinearStep{weight, std::move(bias)}, {context.input()}, 2 * width);
  };
  const ValueId of_target = product(0, biases.empty() ? nullptr : Joined(context, biases));
  const ValueId of_source = product(width, nullptr);
  EdgeMessageStep step;
  step.reduce = args.Aggr();
  step.function = EdgeFunction::kGated;
  step.gate.kind = ActivationKind::kSigmoid;
  step.activation = {ActivationKind::kSoftplus, kSoftplusThreshold};
  step.edge_width = features;
  if (features > 0) step.edge_weight = StackedColumns(context, weights, 2 * width, features);
  ValueId value = context.steps.Emit(std::move(step), {of_source, of_target}, width);
  if (args.Bool("batch_norm")) {
    VICINAL_ASSIGN_OR_RETURN(value, Normed(context, value));
  }
  return context.steps.Emit(AddStep{}, {value, context.input()}, width);
}

}  // namespace

LayerType CgConv() {
  LayerType type;
  type.name = "CGConv";
  type.arguments = {InChannelsArgument("channels"), IntArgument("dim", 0, 0, kMaxWidth), AggrArgument("add"),
                    BoolArgument("batch_norm", false), BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(false), &type.arguments);
  type.convolution = true;
  type.lower = LowerCg;
  return type;
}

}  // namespace vicinal::internal

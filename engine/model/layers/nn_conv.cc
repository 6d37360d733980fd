// SPDX-License-Identifier: Apache-2.0
// NNConv (Gilmer et al. 2017), also called ECConv: out_i = reduce_{j -> i} x_j Theta(e_ij) + x_i W^T + b for a matrix
// Theta(e) [in, out] that nn makes of the edge's features. nn ends with a Linear, Theta(e) = sum_k p_k Theta_k +
// Theta_0 for the K inputs p of that Linear: x_j Theta_k are formed per node, p per edge. Loops and duplicates count as
// sent; no in-edges: reduces to 0.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/model/layers/derived_weights.h"
#include "engine/model/layers/edge_mlp.h"
#include "engine/model/layers/layers.h"
#include "engine/model/layers/root_and_bias.h"

namespace vicinal::internal {
namespace {

using Json = nlohmann::json;

// A, the width of the edges' features, as the first layer of nn states it.
StatusOr<int64_t> FeatureWidth(const LayerContext& context) {
  VICINAL_ASSIGN_OR_RETURN(
      const std::vector<LayerDeclaration> layers,
      ParseNestedLayers(context.args.Raw("nn"), context.declaration.prefix + "nn.", context.args.FieldOf("nn")));
  const LayerDeclaration* const first = layers.empty() ? nullptr : &layers.front();
  const Json args = first != nullptr && first->args.is_object() ? first->args : Json::object();
  for (const char* name : {"in_channels", "in_features"}) {
    const Json width = args.value(name, Json());
    if (width.is_number_integer() && width >= 1 && width <= kMaxWidth) return width.get<int64_t>();
  }
  const Json list = args.value("channel_list", Json());
  if (list.is_array() && !list.empty() && list[0].is_number_integer() && list[0] >= 1 && list[0] <= kMaxWidth)
    return list[0].get<int64_t>();
  return BadArchitecture(first != nullptr ? first->field : context.args.FieldOf("nn"),
                         context.Describe() + " needs an nn whose first layer states in_channels (an MLP: or " +
                             "channel_list), the number of features of an edge");
}

// The last Linear of nn, W [in * out, K] and b, as a product with nodes that gives x Theta_k for all k, and x Theta_0.
WeightRef NodeWeight(const LayerContext& context, const LinearStep& last, int64_t in, int64_t out) {
  const int64_t count = last.weight->shape[1], parts = count + (last.bias != nullptr ? 1 : 0);
  return context.tensors.Make("per node, " + last.weight->name, {parts * out, in}, [&](std::vector<float>& values) {
    for (int64_t k = 0; k < parts; ++k) {
      for (int64_t o = 0; o < out; ++o) {
        for (int64_t f = 0; f < in; ++f) {
          const int64_t row = f * out + o;
          values[(k * out + o) * in + f] = k < count ? last.weight->values[row * count + k] : last.bias->values[row];
        }
      }
    }
  });
}

// At most so many dense layers do `ops` become: each normalisation or activation that follows an activation is one.
int LayersOf(const std::vector<EdgeConvOp>& ops) {
  int count = 0;
  bool open = false;  // the last layer has no activation yet
  for (const EdgeConvOp& op : ops) {
    if (std::holds_alternative<LinearStep>(op) || !open) ++count;
    open = !std::holds_alternative<ActivationStep>(op);
  }
  return count;
}

StatusOr<ValueId> NnMessages(const LayerContext& context, int64_t out) {
  const int64_t in = context.input_width();
  EdgeMessageStep step;
  step.reduce = context.args.Aggr();
  step.function = EdgeFunction::kMixture;
  VICINAL_ASSIGN_OR_RETURN(step.edge_width, FeatureWidth(context));
  VICINAL_ASSIGN_OR_RETURN(EdgeMlpOps nn, ReadEdgeMlp(context, step.edge_width));
  const std::string field = context.args.FieldOf("nn");
  const auto* const last = std::get_if<LinearStep>(&nn.ops.back());
  if (last == nullptr)
    return UnsupportedArgument(field, context.Describe() +
                                          " has an nn that does not end with a Linear, which is "
                                          "supported alone: its product is formed per node");
  if (nn.width != in * out)
    return BadArchitecture(field, context.Describe() + " needs an nn that gives in_channels times out_channels, " +
                                      std::to_string(in * out) + " numbers; it gives " + std::to_string(nn.width));
  const int64_t parts = last->weight->shape[1] + (last->bias != nullptr ? 1 : 0);
  if (parts * out > kMaxWidth)
    return BadArchitecture(field, context.Describe() + " would compute " + std::to_string(parts * out) +
                                      " columns per node, the inputs of nn's last Linear times out_channels; at most " +
                                      std::to_string(kMaxWidth) + " are supported");
  const WeightRef weight = NodeWeight(context, *last, in, out);
  nn.ops.pop_back();
  if (LayersOf(nn.ops) >= kMaxEdgeConvLayers)
    return UnsupportedArgument(field, context.Describe() + " has an nn of more than " +
                                          std::to_string(kMaxEdgeConvLayers) +
                                          " layers, the maximum; a normalisation after an activation is one");
  step.nn = std::move(nn.ops);
  const ValueId products = context.steps.Emit(LinearStep{weight, nullptr}, {context.input()}, parts * out);
  return context.steps.Emit(std::move(step), {products}, out);
}

StatusOr<ValueId> LowerNn(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t out = args.Int("out_channels");
  VICINAL_ASSIGN_OR_RETURN(ValueId value, NnMessages(context, out));
  if (args.Bool("root_weight")) {
    VICINAL_ASSIGN_OR_RETURN(value, AddRoot(context, "lin.weight", value, out));
  }
  return AddBias(context, value, out);
}

}  // namespace

LayerType NnConv() {
  LayerType type;
  type.name = "NNConv";
  type.arguments = {InChannelsArgument("in_channels"),
                    RequiredIntArgument("out_channels", 1, kMaxWidth),
                    NestedArgument("nn"),
                    AggrArgument("add"),
                    BoolArgument("root_weight", true),
                    BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(false), &type.arguments);
  type.convolution = true;
  type.lower = LowerNn;
  return type;
}

}  // namespace vicinal::internal

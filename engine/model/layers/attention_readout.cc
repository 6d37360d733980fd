// SPDX-License-Identifier: Apache-2.0
// Readouts whose sum over a graph's nodes is weighted by a softmax over them: AttentionalAggregation (Li et al. 2016),
// with scores of a small network, and SoftmaxAggregation (Li et al. 2020), of the features themselves. The largest
// score of the graph is taken off before the exponentials; the division by their sum comes after the weighted sum. A
// graph without nodes gives 0.
#include <string>
#include <utility>
#include <vector>

#include "engine/model/layers/derived_weights.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

// `x`, or its one column repeated.
ValueId Repeated(const LayerContext& context, ValueId x, int64_t width) {
  if (context.steps.width(x) == width) return x;
  return context.steps.Emit(LinearStep{ConstantWeight(context, width, 1, 1.0f), nullptr}, {x}, width);
}

// sum of softmax(scores) x over each graph; scores have the width of x, or one column.
ValueId WeightedSum(const LayerContext& context, ValueId scores, ValueId x) {
  const int64_t width = context.steps.width(x), columns = context.steps.width(scores);
  const ValueId largest = context.steps.Emit(ReadoutStep{Reduce::kMax}, {scores}, columns);
  const ValueId expanded = context.steps.Emit(ExpandStep{}, {largest}, columns);
  const ValueId shifted = context.steps.Emit(AddStep{1.0, -1.0}, {scores, expanded}, columns);
  const ValueId weights = context.steps.Emit(ActivationStep{{ActivationKind::kExp}}, {shifted}, columns);
  const ValueId total = context.steps.Emit(ReadoutStep{Reduce::kSum}, {weights}, columns);
  const ValueId weighted = context.steps.Emit(MultiplyStep{}, {Repeated(context, weights, width), x}, width);
  const ValueId sum = context.steps.Emit(ReadoutStep{Reduce::kSum}, {weighted}, width);
  // 1 / (total + 1e-16), where that is what PyTorch Geometric adds.
  const ValueId root = context.steps.Emit(ActivationStep{{ActivationKind::kInverseRoot, 1e-16f}}, {total}, columns);
  const ValueId inverse = context.steps.Emit(MultiplyStep{}, {root, root}, columns);
  return context.steps.Emit(MultiplyStep{}, {sum, Repeated(context, inverse, width)}, width);
}

// Whether `layer` is an object that has the string `value` under `key`.
bool Says(const nlohmann::json& layer, const char* key, const std::string& value) {
  if (!layer.is_object()) return false;
  const auto found = layer.find(key);
  return found != layer.end() && found->is_string() && found->get_ref<const std::string&>() == value;
}

// The network `argument` on the layer's input. PyTorch Geometric keeps an MLP that is the argument itself ("prefix":
// "") under the name `mlp`.
StatusOr<ValueId> Network(const LayerContext& context, const char* argument, const char* mlp) {
  const nlohmann::json& list = context.args.Raw(argument);
  const bool alone = list.is_array() && list.size() == 1 && Says(list[0], "type", "MLP") && Says(list[0], "prefix", "");
  const std::string prefix = context.declaration.prefix + (alone ? mlp : argument) + ".";
  VICINAL_ASSIGN_OR_RETURN(const std::vector<LayerDeclaration> layers,
                           ParseNestedLayers(list, prefix, context.args.FieldOf(argument)));
  ValueId value = context.input();
  for (const LayerDeclaration& layer : layers) {
    VICINAL_ASSIGN_OR_RETURN(
        value, LowerLayer(layer, {value}, context.steps, context.tensors, context.graph_level, true, nullptr));
  }
  return value;
}

StatusOr<ValueId> LowerAttentional(const LayerContext& context) {
  VICINAL_ASSIGN_OR_RETURN(const ValueId scores, Network(context, "gate_nn", "gate_mlp"));
  ValueId x = context.input();
  if (!context.args.IsNull("nn")) {
    VICINAL_ASSIGN_OR_RETURN(x, Network(context, "nn", "mlp"));
  }
  const int64_t columns = context.steps.width(scores), width = context.steps.width(x);
  if (columns != 1 && columns != width) {
    return BadArchitecture(context.args.FieldOf("gate_nn"),
                           context.Describe() + " has a gate_nn that gives " + std::to_string(columns) +
                               " columns; it must give 1, or " + std::to_string(width) + " as what it weighs");
  }
  return WeightedSum(context, scores, x);
}

StatusOr<ValueId> LowerSoftmaxAggregation(const LayerContext& context) {
  const Arguments& args = context.args;
  const int64_t width = context.input_width(), channels = args.Int("channels");
  if (!args.Bool("learn")) {
    if (channels != 1)
      return BadArchitecture(args.FieldOf("channels"), context.Describe() + " has channels without learn");
    const ValueId scores = context.steps.Emit(ScaleStep{args.Number("t"), nullptr}, {context.input()}, width);
    return WeightedSum(context, scores, context.input());
  }
  if (channels != 1 && channels != width) {
    return BadArchitecture(args.FieldOf("channels"), args.FieldOf("channels") + " of " + context.Describe() +
                                                         " must be 1 or the width of its input, " +
                                                         std::to_string(width));
  }
  VICINAL_ASSIGN_OR_RETURN(WeightRef t, context.Tensor("t", {channels}));
  const bool one = channels == 1;
  const ScaleStep scale{one ? static_cast<double>(t->values[0]) : 1.0, one ? nullptr : t};
  return WeightedSum(context, context.steps.Emit(scale, {context.input()}, width), context.input());
}

}  // namespace

LayerType AttentionalAggregation() {
  LayerType type;
  type.name = "AttentionalAggregation";
  type.arguments = {NestedArgument("gate_nn"), AnyArgument("nn", nullptr)};
  type.node_rows = true;
  type.lower = LowerAttentional;
  return type;
}

LayerType SoftmaxAggregation() {
  LayerType type;
  type.name = "SoftmaxAggregation";
  type.arguments = {NumberArgument("t", 1.0, -1e6, 1e6), BoolArgument("learn", false), IgnoredArgument("semi_grad"),
                    IntArgument("channels", 1, 1, kMaxWidth)};
  type.node_rows = true;
  type.lower = LowerSoftmaxAggregation;
  return type;
}

}  // namespace vicinal::internal

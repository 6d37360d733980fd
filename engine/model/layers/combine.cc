// SPDX-License-Identifier: Apache-2.0
// Layers of several inputs: JumpingKnowledge (Xu et al. 2018), Concat, Add (residual connections) and Mul; and Scale.
#include "engine/model/layers/jumping_lstm.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

Status CheckEqualWidths(const LayerContext& context) {
  for (ValueId value : context.inputs) {
    if (context.steps.width(value) != context.input_width()) {
      return BadArchitecture(context.declaration.field + ".inputs",
                             context.Describe() + " needs inputs of one width, but they have " +
                                 std::to_string(context.input_width()) + " and " +
                                 std::to_string(context.steps.width(value)) + " columns");
    }
  }
  return OkStatus();
}

StatusOr<ValueId> LowerConcat(const LayerContext& context) {
  int64_t width = 0;
  for (ValueId value : context.inputs) width += context.steps.width(value);
  if (width > kMaxWidth) {
    return BadArchitecture(context.declaration.field + ".inputs",
                           context.Describe() + " would be " + std::to_string(width) + " columns wide; at most " +
                               std::to_string(kMaxWidth) + " are supported");
  }
  return context.steps.Emit(ConcatStep{}, context.inputs, width);
}

StatusOr<ValueId> LowerJumpingKnowledge(const LayerContext& context) {
  const std::string mode = context.args.Choice("mode");
  if (mode == "last") return context.inputs.back();
  if (mode == "max" || mode == "lstm") VICINAL_RETURN_IF_ERROR(CheckEqualWidths(context));
  if (mode == "lstm") return LowerJumpingLstm(context);
  if (context.inputs.size() == 1) return context.input();
  if (mode == "cat") return LowerConcat(context);
  return context.steps.Emit(MaxStep{}, context.inputs, context.input_width());
}

StatusOr<ValueId> LowerAdd(const LayerContext& context) {
  VICINAL_RETURN_IF_ERROR(CheckEqualWidths(context));
  ValueId sum = context.input();
  for (size_t i = 1; i < context.inputs.size(); ++i)
    sum = context.steps.Emit(AddStep{}, {sum, context.inputs[i]}, context.input_width());
  return sum;
}

StatusOr<ValueId> LowerMul(const LayerContext& context) {
  VICINAL_RETURN_IF_ERROR(CheckEqualWidths(context));
  ValueId product = context.input();
  for (size_t i = 1; i < context.inputs.size(); ++i)
    product = context.steps.Emit(MultiplyStep{}, {product, context.inputs[i]}, context.input_width());
  return product;
}

StatusOr<ValueId> LowerScale(const LayerContext& context) {
  return context.steps.Emit(ScaleStep{context.args.Number("factor"), nullptr}, {context.input()},
                            context.input_width());
}

}  // namespace

LayerType JumpingKnowledgeLayer() {
  LayerType type;
  type.name = "JumpingKnowledge";
  ArgumentSpec mode = ChoiceArgument("mode", nullptr, {"cat", "max", "last", "lstm"});
  mode.required = true;
  type.arguments = {mode, IntArgument("channels", nullptr, 1, kMaxWidth),
                    IntArgument("num_layers", nullptr, 1, kMaxLayers)};
  type.max_inputs = kMaxLayers;
  type.lower = LowerJumpingKnowledge;
  return type;
}

LayerType ConcatLayer() {
  LayerType type;
  type.name = "Concat";
  type.arguments = {RefusedArgument("dim", {-1, 1}, "inputs are put side by side, as columns")};
  type.min_inputs = 2;
  type.max_inputs = kMaxLayers;
  type.lower = LowerConcat;
  return type;
}

LayerType MulLayer() {
  LayerType type;
  type.name = "Mul";
  type.min_inputs = 2;
  type.max_inputs = kMaxLayers;
  type.lower = LowerMul;
  return type;
}

LayerType ScaleLayer() {
  LayerType type;
  type.name = "Scale";
  ArgumentSpec factor = NumberArgument("factor", 1.0, -1e6, 1e6);
  factor.required = true;
  type.arguments = {factor};
  type.nestable = true;
  type.lower = LowerScale;
  return type;
}

LayerType AddLayer() {
  LayerType type;
  type.name = "Add";
  type.min_inputs = 2;
  type.max_inputs = kMaxLayers;
  type.lower = LowerAdd;
  return type;
}

}  // namespace vicinal::internal

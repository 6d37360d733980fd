// SPDX-License-Identifier: Apache-2.0
// Activations of torch.nn, and the two layers that do nothing when answering: Dropout and Identity.
#include <utility>

#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> Emit(const LayerContext& context, ActivationKind kind, double slope) {
  return context.steps.Emit(ActivationStep{{kind, static_cast<float>(slope)}}, {context.input()},
                            context.input_width());
}

StatusOr<ValueId> LowerRelu(const LayerContext& context) { return Emit(context, ActivationKind::kRelu, 0.0); }
StatusOr<ValueId> LowerElu(const LayerContext& context) {
  return Emit(context, ActivationKind::kElu, context.args.Number("alpha"));
}
StatusOr<ValueId> LowerLeakyRelu(const LayerContext& context) {
  return Emit(context, ActivationKind::kLeakyRelu, context.args.Number("negative_slope"));
}
StatusOr<ValueId> LowerSigmoid(const LayerContext& context) { return Emit(context, ActivationKind::kSigmoid, 0.0); }
StatusOr<ValueId> LowerTanh(const LayerContext& context) { return Emit(context, ActivationKind::kTanh, 0.0); }
StatusOr<ValueId> LowerNothing(const LayerContext& context) { return context.input(); }

LayerType Type(const char* name, std::vector<ArgumentSpec> arguments, StatusOr<ValueId> (*lower)(const LayerContext&)) {
  LayerType type;
  type.name = name;
  type.arguments = std::move(arguments);
  type.nestable = true;
  type.lower = lower;
  return type;
}

}  // namespace

LayerType ReluLayer() { return Type("ReLU", {IgnoredArgument("inplace")}, LowerRelu); }
LayerType EluLayer() {
  return Type("ELU", {NumberArgument("alpha", 1.0, 0.0, 1e6), IgnoredArgument("inplace")}, LowerElu);
}
LayerType LeakyReluLayer() {
  return Type("LeakyReLU", {NumberArgument("negative_slope", 0.01, 0.0, 1.0), IgnoredArgument("inplace")},
              LowerLeakyRelu);
}
LayerType SigmoidLayer() { return Type("Sigmoid", {}, LowerSigmoid); }
LayerType TanhLayer() { return Type("Tanh", {}, LowerTanh); }
LayerType IdentityLayer() { return Type("Identity", {}, LowerNothing); }
LayerType DropoutLayer() { return Type("Dropout", {IgnoredArgument("p"), IgnoredArgument("inplace")}, LowerNothing); }

}  // namespace vicinal::internal

// SPDX-License-Identifier: Apache-2.0
// Arguments of layers that read features of edges: `edge_dim`, their number A, `fill_value`, those of added self-loops,
// and `act`, of messages.
#ifndef VICINAL_ENGINE_MODEL_LAYERS_EDGE_FEATURES_H_
#define VICINAL_ENGINE_MODEL_LAYERS_EDGE_FEATURES_H_

#include <cmath>
#include <limits>
#include <string>
#include <variant>

#include "engine/model/layer_type.h"
#include "engine/model/torch_names.h"

namespace vicinal::internal {

inline ArgumentSpec EdgeDimArgument() { return IntArgument("edge_dim", nullptr, 1, kMaxWidth); }

// A; 0 where `edge_dim` is not given.
inline int64_t EdgeDim(const LayerContext& context) {
  return context.args.IsNull("edge_dim") ? 0 : context.args.Int("edge_dim");
}

// `fill_value`: "mean" or a number.
inline ArgumentSpec FillValueArgument() { return AnyArgument("fill_value", "mean"); }

// UNSUPPORTED_ARGUMENT: another word, a tensor.
inline StatusOr<LoopFeatures> ReadFillValue(const LayerContext& context) {
  const nlohmann::json& fill = context.args.Raw("fill_value");
  if (fill == "mean") return LoopFeatures();
  const double value = fill.is_number() ? fill.get<double>() : NAN;
  if (std::abs(value) <= std::numeric_limits<float>::max()) return LoopFeatures{false, static_cast<float>(value)};
  return UnsupportedArgument(context.args.FieldOf("fill_value"),
                             context.Describe() +
                                 " has a fill_value that is not supported; supported: \"mean\" and "
                                 "finite numbers, which all features of an added self-loop get");
}

// The activation that the arguments `act` and `act_kwargs` name. UNSUPPORTED_ARGUMENT: one of several steps or with
// weights.
inline StatusOr<Activation> ReadActivation(const LayerContext& context) {
  LayerDeclaration act;
  VICINAL_ASSIGN_OR_RETURN(act.type, ActivationType(context.args.Raw("act"), context.args.FieldOf("act")));
  if (act.type.empty()) return Activation();
  if (!context.args.IsNull("act_kwargs")) act.args = context.args.Raw("act_kwargs");
  act.field = context.declaration.field;
  act.args_field = context.args.FieldOf("act_kwargs");
  if (act.type != "PReLU") {  // which has weights
    StepList steps(1);
    VICINAL_RETURN_IF_ERROR(
        LowerLayer(act, {kInputValue}, steps, context.tensors, context.graph_level, true, nullptr).status());
    const auto* const step = steps.steps().size() == 1 ? std::get_if<ActivationStep>(&steps.steps()[0].op) : nullptr;
    if (step != nullptr) return step->activation;
  }
  return UnsupportedArgument(context.args.FieldOf("act"),
                             context.Describe() + " has the activation " + act.type +
                                 ", which is not supported on edges; supported: "
                                 "activations of one step without weights (docs/layers.md)");
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYERS_EDGE_FEATURES_H_

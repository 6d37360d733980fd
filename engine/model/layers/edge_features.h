// SPDX-License-Identifier: Apache-2.0
// Arguments about the features of edges: `edge_dim`, their number A, and `fill_value`, those of added self-loops.
#ifndef VICINAL_ENGINE_MODEL_LAYERS_EDGE_FEATURES_H_
#define VICINAL_ENGINE_MODEL_LAYERS_EDGE_FEATURES_H_

#include <cmath>
#include <limits>
#include <string>

#include "engine/model/layer_type.h"

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

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYERS_EDGE_FEATURES_H_

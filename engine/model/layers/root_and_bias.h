// SPDX-License-Identifier: Apache-2.0
// How many convolutions end: with a product of the targets' own rows, and with a bias.
#ifndef VICINAL_ENGINE_MODEL_LAYERS_ROOT_AND_BIAS_H_
#define VICINAL_ENGINE_MODEL_LAYERS_ROOT_AND_BIAS_H_

#include <cstdint>
#include <string>

#include "engine/model/layer_type.h"

namespace vicinal::internal {

// value + x W^T for the layer's input x and its tensor `name` [out, input width].
inline StatusOr<ValueId> AddRoot(const LayerContext& context, const std::string& name, ValueId value, int64_t out) {
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor(name, {out, context.input_width()}));
  const ValueId root = context.steps.Emit(LinearStep{weight, nullptr}, {context.input()}, out);
  return context.steps.Emit(AddStep{}, {value, root}, out);
}

// value + b for the layer's tensor "bias" [out], if its argument `bias` is true.
inline StatusOr<ValueId> AddBias(const LayerContext& context, ValueId value, int64_t out) {
  if (!context.args.Bool("bias")) return value;
  VICINAL_ASSIGN_OR_RETURN(WeightRef bias, context.Tensor("bias", {out}));
  return context.steps.Emit(BiasStep{bias}, {value}, out);
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYERS_ROOT_AND_BIAS_H_

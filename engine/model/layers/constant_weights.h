// SPDX-License-Identifier: Apache-2.0
// Matrices of one number: sums over columns ([1, width] of ones), and a column repeated ([width, 1] of ones).
#ifndef VICINAL_ENGINE_MODEL_LAYERS_CONSTANT_WEIGHTS_H_
#define VICINAL_ENGINE_MODEL_LAYERS_CONSTANT_WEIGHTS_H_

#include <cstdint>
#include <memory>

#include "engine/model/step.h"

namespace vicinal::internal {

inline WeightRef ConstantWeight(int64_t rows, int64_t cols, float value) {
  auto weight = std::make_shared<Weight>();
  weight->name = "constant";
  weight->shape = {rows, cols};
  weight->values.assign(rows * cols, value);
  return weight;
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYERS_CONSTANT_WEIGHTS_H_

// SPDX-License-Identifier: Apache-2.0
// Weights that are parts of tensors, copied when a model is loaded: PyTorch Geometric stores some weights as [in, out]
// and several of them in one tensor.
#ifndef VICINAL_ENGINE_MODEL_LAYERS_DERIVED_WEIGHTS_H_
#define VICINAL_ENGINE_MODEL_LAYERS_DERIVED_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/model/step.h"

namespace vicinal::internal {

// Matrix `index` of a tensor [..., rows, cols], transposed: [cols, rows].
inline WeightRef TransposedPart(const Weight& tensor, int64_t index, int64_t rows, int64_t cols) {
  auto weight = std::make_shared<Weight>();
  weight->name = tensor.name;
  weight->shape = {cols, rows};
  weight->values.resize(rows * cols);
  const float* const part = tensor.values.data() + index * rows * cols;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) weight->values[c * rows + r] = part[r * cols + c];
  }
  return weight;
}

// Part `index` of a tensor that consists of parts of `shape`.
inline WeightRef Part(const Weight& tensor, int64_t index, std::vector<int64_t> shape) {
  auto weight = std::make_shared<Weight>();
  weight->name = tensor.name;
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  weight->shape = std::move(shape);
  const auto begin = tensor.values.begin() + index * count;
  weight->values.assign(begin, begin + count);
  return weight;
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYERS_DERIVED_WEIGHTS_H_

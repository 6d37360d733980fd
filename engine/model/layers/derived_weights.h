// SPDX-License-Identifier: Apache-2.0
// Weights that are made when a model is loaded: parts of tensors, because PyTorch Geometric stores some weights as
// [in, out] and several of them in one tensor, and constants, with which products add columns up or repeat one.
#ifndef VICINAL_ENGINE_MODEL_LAYERS_DERIVED_WEIGHTS_H_
#define VICINAL_ENGINE_MODEL_LAYERS_DERIVED_WEIGHTS_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/layer_type.h"

namespace vicinal::internal {

// Matrix `index` of a tensor [..., rows, cols], transposed: [cols, rows].
inline WeightRef TransposedPart(const LayerContext& context, const Weight& tensor, int64_t index, int64_t rows,
                                int64_t cols) {
  const std::string key = "transposed part " + std::to_string(index) + " of " + tensor.name;
  return context.tensors.Make(key, {cols, rows}, [&](std::vector<float>& values) {
    const float* const part = tensor.values.data() + index * rows * cols;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) values[c * rows + r] = part[r * cols + c];
    }
  });
}

// Part `index` of a tensor that consists of parts of `shape`.
inline WeightRef Part(const LayerContext& context, const Weight& tensor, int64_t index, std::vector<int64_t> shape) {
  const std::string key = "part " + std::to_string(index) + " of " + tensor.name;
  return context.tensors.Make(key, std::move(shape), [&](std::vector<float>& values) {
    const auto begin = tensor.values.begin() + index * static_cast<int64_t>(values.size());
    values.assign(begin, begin + static_cast<int64_t>(values.size()));
  });
}

// Columns [first, first + count) of matrices of one width, one matrix below the other.
inline WeightRef StackedColumns(const LayerContext& context, const std::vector<WeightRef>& matrices, int64_t first,
                                int64_t count) {
  std::string key = "columns from " + std::to_string(first);
  int64_t rows = 0;
  for (const WeightRef& matrix : matrices) {
    key += " of " + matrix->name;
    rows += matrix->shape[0];
  }
  return context.tensors.Make(key, {rows, count}, [&](std::vector<float>& values) {
    auto out = values.begin();
    for (const WeightRef& matrix : matrices) {
      for (int64_t r = 0; r < matrix->shape[0]; ++r) {
        const auto begin = matrix->values.begin() + r * matrix->shape[1] + first;
        out = std::copy(begin, begin + count, out);
      }
    }
  });
}

// Vectors, one behind the other.
inline WeightRef Joined(const LayerContext& context, const std::vector<WeightRef>& vectors) {
  std::string key = "joined";
  int64_t count = 0;
  for (const WeightRef& vector : vectors) {
    key += " " + vector->name;
    count += static_cast<int64_t>(vector->values.size());
  }
  return context.tensors.Make(key, {count}, [&](std::vector<float>& values) {
    auto out = values.begin();
    for (const WeightRef& vector : vectors) out = std::copy(vector->values.begin(), vector->values.end(), out);
  });
}

// Sums columns up ([1, width]), or repeats one ([width, 1]).
inline WeightRef ConstantWeight(const LayerContext& context, int64_t rows, int64_t cols, float value) {
  return context.tensors.Make("the number with the bits " + std::to_string(std::bit_cast<uint32_t>(value)),
                              {rows, cols}, [&](std::vector<float>& values) { values.assign(values.size(), value); });
}

// A vector of one number.
inline WeightRef ConstantVector(const LayerContext& context, int64_t count, float value) {
  return context.tensors.Make("the number with the bits " + std::to_string(std::bit_cast<uint32_t>(value)), {count},
                              [&](std::vector<float>& values) { values.assign(values.size(), value); });
}

// [rows, cols]: a product with it keeps the first columns, and pads with zeros.
inline WeightRef PaddingWeight(const LayerContext& context, int64_t rows, int64_t cols) {
  return context.tensors.Make("padding", {rows, cols}, [&](std::vector<float>& values) {
    for (int64_t c = 0; c < rows && c < cols; ++c) values[c * cols + c] = 1.0f;
  });
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYERS_DERIVED_WEIGHTS_H_

// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/rewrite/product_weight.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/check.h"

namespace vicinal::internal {
namespace {

constexpr double kMin = std::numeric_limits<float>::min(), kMax = std::numeric_limits<float>::max();

// Calls f(number) for row `row` of the piece, from the left.
template <class F>
void ForEachInRow(const WeightPiece& piece, int64_t row, int64_t cols, F&& f) {
  if (piece.sent != nullptr) {
    const float* values = piece.sent->values.data() + row * cols;
    for (int64_t c = 0; c < cols; ++c) f(static_cast<double>(values[c]));
  } else {
    const double* values = piece.made->values.data() + row * cols;
    for (int64_t c = 0; c < cols; ++c) f(values[c]);
  }
}

double ScaleOf(const WeightPiece& piece, int64_t row) { return piece.row_scale.empty() ? 1.0 : piece.row_scale[row]; }

}  // namespace

void ProductWeight::CopyRow(int64_t row, double* out) const {
  for (const WeightPiece& piece : pieces) {
    if (row >= piece.rows) {
      row -= piece.rows;
      continue;
    }
    const double scale = ScaleOf(piece, row);
    ForEachInRow(piece, row, cols, [&](double value) { *out++ = value * scale; });
    return;
  }
  VICINAL_CHECK(false);
}

void ProductWeight::Round(float* out) const {
  for (const WeightPiece& piece : pieces) {
    for (int64_t r = 0; r < piece.rows; ++r) {
      const double scale = ScaleOf(piece, r);
      ForEachInRow(piece, r, cols, [&](double value) { *out++ = static_cast<float>(value * scale); });
    }
  }
}

ProductWeightRef SentWeight(const WeightRef& weight) {
  auto product = std::make_shared<ProductWeight>();
  const bool matrix = weight->shape.size() == 2;
  product->rows = matrix ? weight->shape[0] : 1;
  product->cols = matrix ? weight->shape[1] : static_cast<int64_t>(weight->values.size());
  product->pieces.push_back({product->rows, weight, nullptr, {}});
  return product;
}

ProductWeightRef MadeWeight(ParametersRef parameters) {
  auto product = std::make_shared<ProductWeight>();
  product->rows = parameters->rows;
  product->cols = parameters->cols;
  product->pieces.push_back({product->rows, nullptr, std::move(parameters), {}});
  return product;
}

ProductWeightRef ScaledRows(const ProductWeight& weight, const std::vector<double>& scale) {
  auto scaled = std::make_shared<ProductWeight>(weight);
  const double* next = scale.data();
  for (WeightPiece& piece : scaled->pieces) {
    if (piece.row_scale.empty()) piece.row_scale.assign(piece.rows, 1.0);
    for (double& factor : piece.row_scale) factor *= *next++;
  }
  return scaled;
}

ProductWeightRef Stacked(const std::vector<ProductWeightRef>& weights) {
  auto stack = std::make_shared<ProductWeight>();
  for (const ProductWeightRef& weight : weights) {
    stack->rows += weight->rows;
    stack->cols = weight->cols;
    stack->pieces.insert(stack->pieces.end(), weight->pieces.begin(), weight->pieces.end());
  }
  return stack;
}

bool StaysNormal(double a, double b) {
  const double product = std::abs(a * b);
  if (!(product <= kMax)) return false;
  return product >= kMin || b == 0.0 || std::abs(a) < kMin;
}

bool WeightRanges::StaysNormal(const ProductWeight& weight, const std::vector<double>& scale) {
  int64_t row = 0;
  for (const WeightPiece& piece : weight.pieces) {
    const std::vector<Range>& ranges = RangesOf(piece, weight.cols);
    for (int64_t r = 0; r < piece.rows; ++r, ++row) {
      const double factor = std::abs(ScaleOf(piece, r) * scale[row]);
      if (factor == 0.0 || ranges[r].most == 0.0) continue;
      if (!(ranges[r].most * factor <= kMax && ranges[r].least * factor >= kMin)) return false;
    }
  }
  return true;
}

const std::vector<WeightRanges::Range>& WeightRanges::RangesOf(const WeightPiece& piece, int64_t cols) {
  const std::shared_ptr<const void> values =
      piece.sent != nullptr ? std::shared_ptr<const void>(piece.sent) : std::shared_ptr<const void>(piece.made);
  const auto [entry, is_new] = known_.try_emplace(values.get());
  if (!is_new) return entry->second;
  looked_at_.push_back(values);
  for (int64_t r = 0; r < piece.rows; ++r) {
    double least = std::numeric_limits<double>::infinity(), most = 0.0;
    ForEachInRow(piece, r, cols, [&](double value) {
      const double size = std::abs(value);
      if (size >= kMin) least = std::min(least, size);
      most = std::max(most, size);
    });
    entry->second.push_back({least, most});
  }
  return entry->second;
}

}  // namespace vicinal::internal

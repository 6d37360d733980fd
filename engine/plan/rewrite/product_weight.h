// SPDX-License-Identifier: Apache-2.0
// W of a product during rewriting: pieces stacked by rows. A piece is a weight of the model, shared and never copied,
// or a matrix computed from weights, in double. Row factors are kept beside the pieces. All is rounded once, when W is
// packed.
#ifndef VICINAL_ENGINE_PLAN_REWRITE_PRODUCT_WEIGHT_H_
#define VICINAL_ENGINE_PLAN_REWRITE_PRODUCT_WEIGHT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/model/step.h"

namespace vicinal::internal {

// Double-precision parameters, row-major; a vector has one row.
struct Parameters {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<double> values;
};
using ParametersRef = std::shared_ptr<const Parameters>;

struct WeightPiece {
  int64_t rows = 0;
  WeightRef sent;                 // [rows, cols]; or
  ParametersRef made;             // the same
  std::vector<double> row_scale;  // of each row; empty: 1
};

// [rows, cols], immutable.
struct ProductWeight {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<WeightPiece> pieces;

  // A weight of the model, unchanged.
  bool plain() const { return pieces.size() == 1 && pieces[0].sent != nullptr && pieces[0].row_scale.empty(); }
  // out[cols]: row `row`, in double.
  void CopyRow(int64_t row, double* out) const;
  // out[rows * cols], rounded.
  void Round(float* out) const;
};
using ProductWeightRef = std::shared_ptr<const ProductWeight>;

ProductWeightRef SentWeight(const WeightRef& weight);
ProductWeightRef MadeWeight(ParametersRef parameters);
// Multiplies row r by scale[r]; `scale` has `rows` factors.
ProductWeightRef ScaledRows(const ProductWeight& weight, const std::vector<double>& scale);
// Stacks the rows of both. REQUIRES: equal numbers of columns.
ProductWeightRef Stacked(const std::vector<ProductWeightRef>& weights);

// Whether a * b is as exact in float32 as a: it neither overflows nor becomes subnormal. Zeros and values that are
// subnormal already always pass.
bool StaysNormal(double a, double b);

// The same for whole weights. Caches the ranges of weights, so that shared weights are read once.
class WeightRanges {
 public:
  bool StaysNormal(const ProductWeight& weight, const std::vector<double>& scale);

 private:
  struct Range {
    double least, most;  // of the absolute values of a row; least: of the normal ones
  };
  const std::vector<Range>& RangesOf(const WeightPiece& piece, int64_t cols);

  std::map<const void*, std::vector<Range>> known_;
  std::vector<std::shared_ptr<const void>> looked_at_;  // kept so that no address is reused
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_REWRITE_PRODUCT_WEIGHT_H_

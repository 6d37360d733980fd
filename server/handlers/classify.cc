// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/classify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/check.h"

namespace vicinal::server {
namespace {

double Sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

// The largest logit that is a number; 0 if none is.
double LargestLogit(const float* logits, int64_t classes) {
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t c = 0; c < classes; ++c) {
    if (logits[c] > largest) largest = logits[c];
  }
  return std::isfinite(largest) ? largest : 0.0;
}

// Maps one row's logits to probabilities without any array: softmax shifts by the largest, so that nothing overflows.
class RowProbability {
 public:
  RowProbability(const float* logits, int64_t classes, bool multi_label) : logits_(logits), multi_label_(multi_label) {
    if (multi_label) return;
    largest_ = LargestLogit(logits, classes);
    for (int64_t c = 0; c < classes; ++c) sum_ += std::exp(logits[c] - largest_);
  }
  float operator()(int64_t c) const {
    return static_cast<float>(multi_label_ ? Sigmoid(logits_[c]) : std::exp(logits_[c] - largest_) / sum_);
  }

 private:
  const float* logits_;
  const bool multi_label_;
  double largest_ = 0;
  double sum_ = 0;
};

}  // namespace

std::vector<float> Probabilities(const float* logits, int64_t rows, int64_t classes, bool multi_label) {
  std::vector<float> probabilities(static_cast<size_t>(rows * classes));
  for (int64_t r = 0; r < rows; ++r) {
    const RowProbability probability(logits + r * classes, classes, multi_label);
    for (int64_t c = 0; c < classes; ++c) probabilities[r * classes + c] = probability(c);
  }
  return probabilities;
}

TopClasses TopK(const float* logits, int64_t rows, int64_t classes, int64_t k, bool multi_label) {
  VICINAL_CHECK(k >= 1 && k <= classes);
  TopClasses top;
  top.classes.reserve(static_cast<size_t>(rows * k));
  top.scores.reserve(static_cast<size_t>(rows * k));
  std::vector<int32_t> order(static_cast<size_t>(classes));
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = logits + r * classes;
    std::iota(order.begin(), order.end(), 0);
    const auto before = [row](int32_t a, int32_t b) {
      const bool a_nan = std::isnan(row[a]), b_nan = std::isnan(row[b]);
      if (a_nan != b_nan) return b_nan;
      if (!a_nan && row[a] != row[b]) return row[a] > row[b];
      return a < b;
    };
    std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
    const RowProbability probability(row, classes, multi_label);
    for (int64_t i = 0; i < k; ++i) {
      top.classes.push_back(order[i]);
      top.scores.push_back(probability(order[i]));
    }
  }
  return top;
}

}  // namespace vicinal::server

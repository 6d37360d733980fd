// SPDX-License-Identifier: Apache-2.0
// Power-law weights, and draws by weight.
#ifndef VICINAL_BENCH_WEIGHTED_INDEX_H_
#define VICINAL_BENCH_WEIGHTED_INDEX_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "bench/counted_random.h"

namespace vicinal::bench {

// Draws an index with probability by its weight: the index whose stretch of the summed weights holds a number. A table
// of starting places makes that a few steps.
class WeightedIndex {
 public:
  explicit WeightedIndex(const std::vector<double>& weights) : sum_(weights.size() + 1, 0.0), start_(kPlaces) {
    for (size_t i = 0; i < weights.size(); ++i) sum_[i + 1] = sum_[i] + weights[i];
    for (int64_t place = 0; place < kPlaces; ++place) {
      const double x = total() * static_cast<double>(place) / kPlaces;
      start_[place] = static_cast<int32_t>(std::upper_bound(sum_.begin(), sum_.end() - 1, x) - sum_.begin() - 1);
    }
  }

  double total() const { return sum_.back(); }
  // Sum of the weights before `index`.
  double before(int64_t index) const { return sum_[index]; }
  // REQUIRES: 0 <= x <= total().
  int32_t At(double x) const {
    const auto last = static_cast<int32_t>(sum_.size()) - 2;
    const int64_t place = std::min<int64_t>(kPlaces - 1, static_cast<int64_t>(x / total() * kPlaces));
    const int32_t next = place + 1 < kPlaces ? start_[place + 1] : last;
    const auto above = std::upper_bound(sum_.begin() + start_[place] + 1, sum_.begin() + next + 1, x);
    auto index = static_cast<int32_t>(above - sum_.begin()) - 1;
    // The place may be one off by rounding, and x may be the total.
    while (index > 0 && sum_[index] > x) --index;
    while (index < last && sum_[index + 1] <= x) ++index;
    index = std::min(index, last);
    return index;
  }
  // Among the indices [begin, end). REQUIRES: 0 <= unit < 1.
  int32_t Among(int64_t begin, int64_t end, double unit) const {
    return At(before(begin) + unit * (before(end) - before(begin)));
  }
  int32_t AmongAll(double unit) const { return At(unit * total()); }

 private:
  static constexpr int64_t kPlaces = 1 << 16;

  std::vector<double> sum_;
  std::vector<int32_t> start_;
};

// Power-law weights, the largest cut down to `cap` times the mean. Cutting lowers the mean, so it is done three times.
inline std::vector<double> PowerLawWeights(int64_t count, double exponent, double cap, uint64_t seed) {
  std::vector<double> weights(count);
  for (int64_t i = 0; i < count; ++i) {
    weights[i] = std::pow(1.0 - CountedRandom(seed, i).Unit(), -1.0 / (exponent - 1.0));
  }
  for (int round = 0; round < 3; ++round) {
    const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(count);
    for (double& weight : weights) weight = std::min(weight, cap * mean);
  }
  return weights;
}

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_WEIGHTED_INDEX_H_

// SPDX-License-Identifier: Apache-2.0
// Rank k = 1, 2, ... owns the interval of the integral H between k - 1/2 and k + 1/2, of which its probability covers
// the upper part: draw uniformly, invert, round, and reject what falls below that part. At most every fourth draw is
// rejected.
#include "client/cpp/load/zipf.h"

#include <algorithm>
#include <cmath>

namespace vicinal::client::load {

Zipf::Zipf(int64_t count, double exponent) : count_(count), exponent_(exponent) {
  low_ = Integral(1.5) - 1;
  high_ = Integral(static_cast<double>(count) + 0.5);
  accept_ = 2 - InverseOfIntegral(Integral(2.5) - std::pow(2.0, -exponent));
}

double Zipf::Integral(double x) const {
  const double log = std::log(x), power = (1 - exponent_) * log;
  // (x^(1-s) - 1) / (1 - s), which tends to log x.
  return std::abs(power) < 1e-12 ? log : std::expm1(power) / (1 - exponent_);
}

double Zipf::InverseOfIntegral(double y) const {
  const double product = std::max(y * (1 - exponent_), -1.0);
  return std::exp(std::abs(product) < 1e-12 ? y : std::log1p(product) / (1 - exponent_));
}

int64_t Zipf::Draw(std::mt19937_64& random) const {
  if (exponent_ == 0) return std::uniform_int_distribution<int64_t>(0, count_ - 1)(random);
  while (true) {
    const double u = high_ + std::generate_canonical<double, 53>(random) * (low_ - high_);
    const double x = InverseOfIntegral(u);
    const int64_t k = std::clamp<int64_t>(std::llround(x), 1, count_);
    const auto rank = static_cast<double>(k);
    if (rank - x <= accept_ || u >= Integral(rank + 0.5) - std::pow(rank, -exponent_)) return k - 1;
  }
}

}  // namespace vicinal::client::load

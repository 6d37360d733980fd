// SPDX-License-Identifier: Apache-2.0
// Bucket of a value: its 8 leading bits and how far they were shifted. Each power of two above 256 has 128 buckets.
#include "client/cpp/load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace vicinal::client::load {
namespace {

constexpr int kBits = 8;

size_t BucketOf(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  const int shift = std::max(0, static_cast<int>(std::bit_width(bits)) - kBits);
  return (static_cast<size_t>(shift) << (kBits - 1)) + static_cast<size_t>(bits >> shift);
}

// The highest value of a bucket.
int64_t TopOf(size_t bucket) {
  constexpr size_t kHalf = size_t{1} << (kBits - 1);
  if (bucket < 2 * kHalf) return static_cast<int64_t>(bucket);
  const size_t shift = bucket / kHalf - 1;
  const uint64_t lead = bucket - shift * kHalf;
  return static_cast<int64_t>(((lead + 1) << shift) - 1);
}

}  // namespace

void Histogram::Record(int64_t value) {
  value = std::max<int64_t>(value, 0);
  const size_t bucket = BucketOf(value);
  if (bucket >= counts_.size()) counts_.resize(bucket + 1);
  ++counts_[bucket];
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value);
  ++count_;
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) return;
  if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size());
  for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  count_ += other.count_;
}

double Histogram::mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

int64_t Histogram::Quantile(double q) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(count_));
  const int64_t rank = std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, count_);
  int64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) return std::clamp(TopOf(i), min_, max_);
  }
  return max_;
}

int64_t Histogram::CountUpTo(int64_t value) const {
  if (value < 0) return 0;
  const size_t end = std::min(BucketOf(value) + 1, counts_.size());
  int64_t seen = 0;
  for (size_t i = 0; i < end; ++i) seen += counts_[i];
  return seen;
}

}  // namespace vicinal::client::load

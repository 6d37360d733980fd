// SPDX-License-Identifier: Apache-2.0
// A histogram of times like HdrHistogram: buckets grow with the value, so that any quantile is exact to 0.8 % of itself
// while memory does not depend on the number of values (58 KB). Values below 256 are exact. Recording is a shift and an
// addition. Not thread-safe: each thread records into its own and they are merged at the end.
#ifndef VICINAL_CLIENT_CPP_LOAD_HISTOGRAM_H_
#define VICINAL_CLIENT_CPP_LOAD_HISTOGRAM_H_

#include <cstdint>
#include <vector>

namespace vicinal::client::load {

class Histogram {
 public:
  // Any unit; negative values count as 0.
  void Record(int64_t value);
  void Merge(const Histogram& other);

  int64_t count() const { return count_; }
  // Exact; 0 if there are no values.
  int64_t min() const { return count_ == 0 ? 0 : min_; }
  int64_t max() const { return max_; }
  double mean() const;
  // The smallest value that at least the share `q` (0 to 1) of all values does not exceed, at most 0.8 % too high; 0 if
  // there are no values.
  int64_t Quantile(double q) const;
  // Number of values up to `value`, whose bucket counts as a whole.
  int64_t CountUpTo(int64_t value) const;

 private:
  std::vector<int64_t> counts_;  // by bucket, as long as the highest bucket in use
  int64_t count_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace vicinal::client::load

#endif  // VICINAL_CLIENT_CPP_LOAD_HISTOGRAM_H_

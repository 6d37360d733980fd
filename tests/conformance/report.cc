// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace vicinal::conformance {
namespace {

constexpr double kWorstRow = 1e-4;
constexpr int64_t kMaxPrinted = 20;

bool SameBits(const HostMatrix& a, const HostMatrix& b) {
  return a.values.size() == b.values.size() &&
         (a.values.empty() || std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0);
}

// Elements that are not finite are looked at elsewhere.
bool WithinBounds(const HostMatrix& got, const std::vector<double>& want, const Report::Bounds& bounds) {
  if (!bounds) return false;
  const std::vector<double> bound = bounds();
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isfinite(want[i]) && !(std::abs(got.values[i] - want[i]) <= bound[i])) return false;
  }
  return true;
}

}  // namespace

void Report::Fail(const std::string& operation, const std::string& what, const std::string& why) {
  if (++counts_[operation].failed <= kMaxPrinted) {
    std::printf("FAILED %s: %s: %s\n", operation.c_str(), what.c_str(), why.c_str());
  }
}

void Report::Check(const std::string& operation, const std::string& what, const HostMatrix& got,
                   const HostMatrix& again, const std::vector<double>& want, double relative_l2, const Bounds& bounds) {
  Count& count = counts_[operation];
  ++count.cases;
  double error = 0, norm = 0, worst_row = 0;
  bool as_wanted = true;  // what is not finite
  for (int64_t r = 0; r < got.rows; ++r) {
    double row_error = 0, row_norm = 0;
    for (int64_t c = 0; c < got.cols; ++c) {
      const double x = got.at(r, c), y = want[r * got.cols + c];
      if (!std::isfinite(y)) {
        as_wanted = as_wanted && (std::isnan(y) ? std::isnan(x) : x == y);
        continue;
      }
      as_wanted = as_wanted && std::isfinite(x);
      row_error += (x - y) * (x - y);
      row_norm += y * y;
    }
    error += row_error;
    norm += row_norm;
    // A row whose terms cancel is as exact as its terms are: floats of order one.
    worst_row = std::max(worst_row, std::sqrt(row_error) / std::max(std::sqrt(row_norm), 0.1));
  }
  const double relative = std::sqrt(error) / std::max(std::sqrt(norm), 1e-30);
  if (as_wanted) count.worst = std::max(count.worst, relative);
  char why[160];
  if (!as_wanted) {
    Fail(operation, what, "a result is not finite, or was not written, or it is finite and should not be");
  } else if ((!(relative <= relative_l2) || !(worst_row <= kWorstRow)) && !WithinBounds(got, want, bounds)) {
    std::snprintf(why, sizeof why, "relative L2 error %.3g, worst row %.3g", relative, worst_row);
    Fail(operation, what, why);
  } else if (!SameBits(got, again)) {
    Fail(operation, what, "a second run gave other bits");
  }
}

void Report::CheckSame(const std::string& operation, const std::string& what, const HostMatrix& got,
                       const HostMatrix& want) {
  CheckTrue(operation, what, SameBits(got, want));
}

void Report::CheckTrue(const std::string& operation, const std::string& what, bool ok) {
  ++counts_[operation].cases;
  if (!ok) Fail(operation, what, "does not hold");
}

bool Report::Summary() const {
  int64_t cases = 0, failed = 0;
  for (const auto& [operation, count] : counts_) {
    std::printf("%-34s %6lld cases %6lld failed, worst relative L2 error %.2g\n", operation.c_str(),
                static_cast<long long>(count.cases), static_cast<long long>(count.failed), count.worst);
    cases += count.cases;
    failed += count.failed;
  }
  std::printf("%-34s %6lld cases %6lld failed\n", "all", static_cast<long long>(cases), static_cast<long long>(failed));
  return failed == 0 && (cases > 0 || (of_ > 1 && asked_ > 0));
}

}  // namespace vicinal::conformance

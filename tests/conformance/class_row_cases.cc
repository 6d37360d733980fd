// SPDX-License-Identifier: Apache-2.0
// Classes that a device ranks: bit by bit what the server makes of the same logits on the host, and within a float32's
// rounding of probabilities in long double.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "engine/device/class_rows.h"
#include "server/handlers/classify.h"
#include "tests/conformance/cases.h"

namespace vicinal::conformance {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Results {
  std::vector<int32_t> classes;
  std::vector<float> scores, probabilities, values;
};

struct Case {
  std::string name;
  HostMatrix logits;
  std::vector<int64_t> rows;
  int64_t top_k;
  bool multi_label = false;
  bool wants_all = true;  // probabilities and logits
};

Results RoomFor(const Case& c) {
  const size_t rows = c.rows.size(), k = static_cast<size_t>(c.top_k), classes = static_cast<size_t>(c.logits.cols);
  const size_t all = c.wants_all ? rows * classes : 0;
  return {std::vector<int32_t>(rows * k, -7), std::vector<float>(rows * k, -7.0f), std::vector<float>(all, -7.0f),
          std::vector<float>(all, -7.0f)};
}

ClassRanker& RankerOf(Machine& machine) { return dynamic_cast<ClassRanker&>(*machine.context); }

Results OnDevice(Machine& machine, const Case& c, const MatrixLayout& layout) {
  const DeviceMatrix logits(*machine.device, c.logits, layout, 1e30f);
  Results out = RoomFor(c);
  ClassRowsJob job{logits.view(), c.rows.data(), static_cast<int64_t>(c.rows.size()), c.top_k, c.multi_label};
  job.classes = out.classes.data();
  job.scores = out.scores.data();
  if (c.wants_all) job.probabilities = out.probabilities.data();
  if (c.wants_all) job.values = out.values.data();
  MustBeOk(RankerOf(machine).ClassRowsToHost(job), "class rows");
  return out;
}

Results OnHost(const Case& c) {
  Results out = RoomFor(c);
  std::vector<float> picked;
  for (const int64_t row : c.rows) {
    const auto begin = c.logits.values.begin() + row * c.logits.cols;
    picked.insert(picked.end(), begin, begin + c.logits.cols);
  }
  server::FillClassRows({picked.data(), static_cast<int64_t>(c.rows.size()), c.logits.cols, c.top_k, c.multi_label,
                         out.classes.data(), out.scores.data(), c.wants_all ? out.probabilities.data() : nullptr},
                        nullptr);
  if (c.wants_all) out.values = picked;
  return out;
}

// A NaN's sign and payload are open.
bool SameFloats(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return (std::isnan(x) && std::isnan(y)) || std::memcmp(&x, &y, sizeof x) == 0;
  });
}

// Of a row of finite logits.
std::vector<long double> ProbabilitiesOf(const float* row, int64_t classes, bool multi_label) {
  std::vector<long double> p(static_cast<size_t>(classes));
  const float largest = *std::max_element(row, row + classes);
  for (int64_t c = 0; c < classes; ++c) {
    const long double x = row[c];
    p[c] = multi_label ? 1 / (1 + std::exp(-x)) : std::exp(x - largest);
  }
  const long double sum = multi_label ? 1 : std::accumulate(p.begin(), p.end(), 0.0L);
  for (long double& x : p) x /= sum;
  return p;
}

// Every probability is the exact one but for rounding, the top classes are sorted by logits, and none outside is above.
bool IsExact(const Case& c, const Results& got) {
  const int64_t classes = c.logits.cols;
  for (size_t i = 0; i < c.rows.size(); ++i) {
    const float* const row = c.logits.values.data() + c.rows[i] * classes;
    const std::vector<long double> want = ProbabilitiesOf(row, classes, c.multi_label);
    for (int64_t j = 0; j < classes; ++j) {
      const long double p = got.probabilities[i * classes + j];
      if (std::abs(p - want[j]) > 1e-7L * want[j] + 1e-40L) return false;
    }
    std::vector<int64_t> order(static_cast<size_t>(classes));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [row](int64_t a, int64_t b) { return row[a] > row[b]; });
    for (int64_t k = 0; k < c.top_k; ++k) {
      if (got.classes[i * c.top_k + k] != order[k]) return false;
      if (got.scores[i * c.top_k + k] != got.probabilities[i * classes + order[k]]) return false;
    }
  }
  return true;
}

std::vector<int64_t> Picked(int64_t count, int64_t of) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < count; ++i) rows.push_back(i * 7919 % of);
  return rows;
}

HostMatrix Logits(int64_t rows, int64_t cols, float spread) {
  HostMatrix logits = RandomMatrix(rows, cols, 83);
  for (float& x : logits.values) x *= spread;
  return logits;
}

// Ties, zeros of both signs, infinities and NaN in every place of a row.
HostMatrix OddLogits(int64_t cols) {
  constexpr float kOdd[] = {0.0f, -0.0f, kNan, kInf, -kInf, 1.0f, 1.0f, -90.0f, 1e30f};
  HostMatrix logits{81, cols, {}};
  for (int64_t r = 0; r < logits.rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) logits.values.push_back(kOdd[(r * (c + 1) + r / 9 + c / 5) % 9]);
  }
  return logits;
}

}  // namespace

void RunClassRowCases(Machine& machine, Report& report) {
  report.CheckTrue("class rows", "the host's bits are the defined ones", server::HasDefinedBits());
  std::vector<Case> cases;
  for (const bool multi_label : {false, true}) {
    for (const int64_t classes : {1, 2, 3, 4, 7, 32, 41, 112, 1000}) {
      for (const int64_t k : {int64_t{1}, std::min<int64_t>(5, classes), std::min<int64_t>(60, classes)}) {
        cases.push_back({"random", Logits(300, classes, 8), Picked(257, 300), k, multi_label});
        cases.push_back({"far apart", Logits(40, classes, 600), Picked(9, 40), k, multi_label});
      }
      cases.push_back({"odd", OddLogits(classes), Picked(81, 81), std::min<int64_t>(9, classes), multi_label});
    }
    cases.push_back({"several pieces", Logits(5'000, 7, 8), Picked(150'000, 5'000), 1, multi_label, false});
    cases.push_back({"wide pieces", Logits(900, 1'000, 8), Picked(900, 900), 3, multi_label});
  }
  for (const Case& c : cases) {
    const std::string what = c.name + ", " + std::to_string(c.logits.cols) + " classes, top " +
                             std::to_string(c.top_k) + (c.multi_label ? ", sigmoid" : ", softmax");
    const Results want = OnHost(c);
    for (const MatrixLayout& layout : {MatrixLayout{0, 0}, MatrixLayout{1, 3}}) {
      const Results got = OnDevice(machine, c, layout);
      report.CheckTrue("class rows", what + ": the host's bits",
                       got.classes == want.classes && SameFloats(got.scores, want.scores) &&
                           SameFloats(got.probabilities, want.probabilities) && SameFloats(got.values, want.values));
      if (c.wants_all && c.name != "odd") report.CheckTrue("class rows", what + ": exact", IsExact(c, got));
    }
  }
  report.CheckTrue("class rows", "none", RankerOf(machine).ClassRowsToHost({}).ok());
  report.CheckTrue("class rows", "long sorts are left to the host", !RankerOf(machine).RanksClasses(1'000, 100));
}

}  // namespace vicinal::conformance

// SPDX-License-Identifier: Apache-2.0
// Classes and probabilities against a plain oracle in double precision (long double exponentials, a full sort).
#include "server/handlers/classify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/split_mix.h"

namespace vicinal::server {
namespace {

using ::testing::ElementsAre;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Filled {
  std::vector<int32_t> classes;
  std::vector<float> scores, probabilities;
};

// Of logits [any, classes]. The results are surrounded by values that must stay.
Filled Fill(const std::vector<float>& logits, int64_t classes, int64_t k, bool multi_label, bool probabilities = true,
            ThreadPool* pool = nullptr) {
  const int64_t rows = static_cast<int64_t>(logits.size()) / classes;
  Filled out;
  out.classes.assign(static_cast<size_t>(rows * k + 1), -7);
  out.scores.assign(static_cast<size_t>(rows * k + 1), -7.0f);
  out.probabilities.assign(static_cast<size_t>(rows * classes + 1), -7.0f);
  FillClassRows({logits.data(), rows, classes, k, multi_label, out.classes.data(), out.scores.data(),
                 probabilities ? out.probabilities.data() : nullptr},
                pool);
  EXPECT_EQ(out.classes.back(), -7);
  EXPECT_EQ(out.scores.back(), -7.0f);
  EXPECT_EQ(out.probabilities.back(), -7.0f);
  out.classes.pop_back();
  out.scores.pop_back();
  out.probabilities.pop_back();
  return out;
}

std::vector<long double> OracleProbabilities(const float* row, int64_t classes, bool multi_label) {
  std::vector<long double> p(static_cast<size_t>(classes));
  const float largest = *std::max_element(row, row + classes);
  long double sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    p[c] = multi_label ? 1 / (1 + std::exp(-static_cast<long double>(row[c])))
                       : std::exp(static_cast<long double>(row[c]) - largest);
    sum += p[c];
  }
  if (!multi_label) {
    for (long double& x : p) x /= sum;
  }
  return p;
}

std::vector<int32_t> OracleOrder(const float* row, int64_t classes) {
  std::vector<int32_t> order(static_cast<size_t>(classes));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [row](int32_t a, int32_t b) {
    if (std::isnan(row[a])) return false;
    return std::isnan(row[b]) || row[a] > row[b];
  });
  return order;
}

// Differences in units of float32's last place at the exact value.
double Ulps(float got, long double exact) {
  const float near = static_cast<float>(exact);
  const long double unit = std::nextafter(std::abs(near), kInf) - std::abs(near);
  return static_cast<double>(std::abs(got - exact) / unit);
}

// A third of the logits are whole numbers, so that there are ties.
std::vector<float> RandomLogits(int64_t count, double scale, uint64_t seed) {
  testing::SplitMix64 random(seed);
  std::vector<float> logits(static_cast<size_t>(count));
  for (float& x : logits) {
    const double value = (random.Unit() - 0.5) * scale;
    x = static_cast<float>(random.Next() % 3 == 0 ? std::round(value) : value);
  }
  return logits;
}

void ExpectOracle(const std::vector<float>& logits, int64_t classes, int64_t k, bool multi_label) {
  const Filled got = Fill(logits, classes, k, multi_label);
  const Filled without = Fill(logits, classes, k, multi_label, false);
  EXPECT_EQ(got.classes, without.classes);
  EXPECT_EQ(got.scores, without.scores);
  double worst = 0;
  for (int64_t r = 0; r < static_cast<int64_t>(logits.size()) / classes; ++r) {
    const float* const row = logits.data() + r * classes;
    const auto exact = OracleProbabilities(row, classes, multi_label);
    for (int64_t c = 0; c < classes; ++c) worst = std::max(worst, Ulps(got.probabilities[r * classes + c], exact[c]));
    const std::vector<int32_t> order = OracleOrder(row, classes);
    for (int64_t i = 0; i < k; ++i) {
      ASSERT_EQ(got.classes[r * k + i], order[i]) << "row " << r << " of " << classes << " classes, place " << i;
      ASSERT_EQ(got.scores[r * k + i], got.probabilities[r * classes + order[i]]);
    }
  }
  EXPECT_LT(worst, 0.501) << classes << " classes, top " << k << (multi_label ? ", many labels" : "");
}

TEST(Classify, EqualsTheOracle) {
  for (const int64_t classes : {1, 2, 3, 7, 8, 15, 16, 17, 40, 48, 49, 349, 2047, 2048, 2049, 5000}) {
    const int64_t rows = std::max<int64_t>(3, 6000 / classes);
    for (const double scale : {1.0, 20.0, 250.0}) {
      const std::vector<float> logits = RandomLogits(rows * classes, scale, static_cast<uint64_t>(classes));
      for (const int64_t k : {int64_t{1}, std::min<int64_t>(5, classes), std::min<int64_t>(17, classes), classes}) {
        for (const bool multi_label : {false, true}) ExpectOracle(logits, classes, k, multi_label);
      }
    }
  }
}

// Of any number of rows, in any place among them, on any number of threads.
TEST(Classify, BitsOfARowDependOnItAlone) {
  ThreadPool pool(3);
  for (const int64_t classes : {1, 7, 40, 3000}) {
    const int64_t rows = 120'000 / classes;
    const std::vector<float> logits = RandomLogits(rows * classes, 30, 5);
    for (const bool multi_label : {false, true}) {
      const int64_t k = std::min<int64_t>(3, classes);
      const Filled whole = Fill(logits, classes, k, multi_label),
                   shared = Fill(logits, classes, k, multi_label, true, &pool);
      EXPECT_EQ(whole.classes, shared.classes);
      EXPECT_EQ(whole.scores, shared.scores);
      EXPECT_EQ(whole.probabilities, shared.probabilities);
      for (int64_t r = 0; r < rows; r += 1 + rows / 50) {
        const std::vector<float> row(logits.begin() + r * classes, logits.begin() + (r + 1) * classes);
        const Filled alone = Fill(row, classes, k, multi_label);
        EXPECT_TRUE(std::equal(alone.classes.begin(), alone.classes.end(), whole.classes.begin() + r * k));
        EXPECT_TRUE(std::equal(alone.probabilities.begin(), alone.probabilities.end(),
                               whole.probabilities.begin() + r * classes));
      }
    }
  }
}

TEST(Classify, SoftmaxOfHugeLogitsDoesNotOverflow) {
  EXPECT_THAT(Fill({3e38f, 3e38f, -3e38f}, 3, 1, false).probabilities, ElementsAre(0.5f, 0.5f, 0.0f));
  EXPECT_THAT(Fill({0.0f, -1e-45f, -100.0f, -103.9f, -104.1f}, 5, 1, false).probabilities,
              ElementsAre(0.5f, 0.5f, static_cast<float>(std::exp(-100.0) / 2),
                          static_cast<float>(std::exp(-103.9) / 2), 0.0f));
}

TEST(Classify, ManyLabelsGetSigmoids) {
  EXPECT_THAT(Fill({0.0f, 1000.0f, -1000.0f, kInf, -kInf, -0.0f}, 6, 1, true).probabilities,
              ElementsAre(0.5f, 1.0f, 0.0f, 1.0f, 0.0f, 0.5f));
}

TEST(Classify, TopKIsOrderedAndTiesGoToTheLowerClass) {
  const Filled top = Fill({1.0f, 3.0f, 3.0f, 2.0f}, 4, 4, false);
  EXPECT_THAT(top.classes, ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(Fill({-0.0f, 0.0f, -0.0f}, 3, 1, false).classes, ElementsAre(0));
  // Probabilities that round to the same number do not make a tie of different logits.
  EXPECT_THAT(Fill({-200.0f, 0.0f, -199.0f}, 3, 3, false).classes, ElementsAre(1, 2, 0));
}

TEST(Classify, NanRanksLast) {
  for (const bool multi_label : {false, true}) {
    EXPECT_THAT(Fill({kNan, -5.0f, kNan, 1.0f}, 4, 4, multi_label).classes, ElementsAre(3, 1, 0, 2));
    EXPECT_THAT(Fill({kNan, -5.0f, kNan, 1.0f}, 4, 1, multi_label).classes, ElementsAre(3));
    EXPECT_THAT(Fill({kNan, -kInf}, 2, 1, multi_label).classes, ElementsAre(1));
    EXPECT_THAT(Fill({kNan, kNan}, 2, 1, multi_label).classes, ElementsAre(0));
  }
  // Beyond the few classes that are kept sorted, and in every place of a vector.
  for (size_t at = 0; at < 40; ++at) {
    std::vector<float> logits(40);
    for (size_t c = 0; c < 40; ++c) logits[c] = -static_cast<float>(c);
    logits[at] = kNan;
    for (const int64_t k : {1, 40}) {
      const Filled top = Fill(logits, 40, k, false);
      EXPECT_EQ(top.classes[0], at == 0 ? 1 : 0);
      EXPECT_EQ(top.classes.back() == static_cast<int32_t>(at), k == 40);
    }
  }
}

bool AllNan(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isnan(x); });
}

TEST(Classify, NanSpreadsOverItsRowAlone) {
  const Filled softmax = Fill({1.0f, kNan, 2.0f, 0.0f, 0.0f, -kInf}, 3, 1, false);
  EXPECT_TRUE(
      AllNan({softmax.probabilities[0], softmax.probabilities[1], softmax.probabilities[2], softmax.scores[0]}));
  EXPECT_THAT((std::vector<float>(softmax.probabilities.begin() + 3, softmax.probabilities.end())),
              ElementsAre(0.5f, 0.5f, 0.0f));
  const std::vector<float> labels = Fill({0.0f, kNan, -kInf}, 3, 1, true).probabilities;
  EXPECT_EQ(labels[0], 0.5f);
  EXPECT_TRUE(std::isnan(labels[1]));
  EXPECT_EQ(labels[2], 0.0f);
}

TEST(Classify, RowsWithoutALargestNumber) {
  const Filled infinite = Fill({1.0f, kInf, -kInf}, 3, 2, false);
  EXPECT_THAT(infinite.classes, ElementsAre(1, 0));
  EXPECT_TRUE(std::isnan(infinite.scores[0]));
  EXPECT_EQ(infinite.probabilities[0], 0.0f);
  EXPECT_TRUE(AllNan(Fill({-kInf, -kInf}, 2, 2, false).scores));
  EXPECT_TRUE(AllNan(Fill({kNan, kNan, kNan}, 3, 3, false).scores));
}

}  // namespace
}  // namespace vicinal::server

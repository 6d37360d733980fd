// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/classify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vicinal::server {
namespace {

using ::testing::ElementsAre;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Classify, SoftmaxSumsToOneAndKeepsRatios) {
  const float logits[] = {0.0f, 1.0f, 2.0f, -1.0f, 0.0f, 3.0f};
  const std::vector<float> p = Probabilities(logits, 2, 3, false);
  for (int r = 0; r < 2; ++r) EXPECT_NEAR(p[3 * r] + p[3 * r + 1] + p[3 * r + 2], 1.0, 1e-6);
  EXPECT_NEAR(p[1] / p[0], std::exp(1.0), 1e-5);
}

TEST(Classify, SoftmaxOfHugeLogitsDoesNotOverflow) {
  const float logits[] = {3e38f, 3e38f, -3e38f};
  EXPECT_THAT(Probabilities(logits, 1, 3, false), ElementsAre(0.5f, 0.5f, 0.0f));
}

TEST(Classify, ManyLabelsGetSigmoids) {
  const float logits[] = {0.0f, 2.0f, -2.0f, 1000.0f, -1000.0f};
  const std::vector<float> p = Probabilities(logits, 1, 5, true);
  EXPECT_FLOAT_EQ(p[0], 0.5f);
  EXPECT_NEAR(p[1], 1 / (1 + std::exp(-2.0)), 1e-7);
  EXPECT_NEAR(p[1] + p[2], 1.0, 1e-6);
  EXPECT_EQ(p[3], 1.0f);
  EXPECT_EQ(p[4], 0.0f);
}

TEST(Classify, TopKIsOrderedAndTiesGoToTheLowerClass) {
  const float logits[] = {1.0f, 3.0f, 3.0f, 2.0f};
  const TopClasses top = TopK(logits, 1, 4, 4, false);
  EXPECT_THAT(top.classes, ElementsAre(1, 2, 3, 0));
  const std::vector<float> p = Probabilities(logits, 1, 4, false);
  EXPECT_THAT(top.scores, ElementsAre(p[1], p[2], p[3], p[0]));
  // Probabilities that round to the same number do not make a tie of different logits.
  const float close[] = {-200.0f, 0.0f, -199.0f};
  EXPECT_THAT(TopK(close, 1, 3, 3, false).classes, ElementsAre(1, 2, 0));
}

TEST(Classify, NanRanksLast) {
  const float logits[] = {kNan, -5.0f, kNan, 1.0f};
  EXPECT_THAT(TopK(logits, 1, 4, 4, false).classes, ElementsAre(3, 1, 0, 2));
}

TEST(Classify, RowsAreApart) {
  const float logits[] = {0.0f, 1.0f, 1.0f, 0.0f};
  EXPECT_THAT(TopK(logits, 2, 2, 1, true).classes, ElementsAre(1, 0));
}

}  // namespace
}  // namespace vicinal::server

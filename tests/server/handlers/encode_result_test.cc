// SPDX-License-Identifier: Apache-2.0
// Replies of many blocks of rows against those of single rows.
#include "server/handlers/encode_result.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/base/error.h"
#include "tests/split_mix.h"

namespace vicinal::server {
namespace {

constexpr int64_t kClasses = 1000;
constexpr ClassifyWants kAll = {3, true, true};

InferenceResult RandomLogits(int64_t rows) {
  InferenceResult result;
  result.rows = rows;
  result.width = kClasses;
  ::vicinal::testing::SplitMix64 random(7);
  for (int64_t i = 0; i < rows * kClasses; ++i) {
    result.values.push_back(static_cast<float>(random.Next() % 2000) / 100.0f - 10.0f);
  }
  return result;
}

TEST(EncodeResultTest, BlocksJoinToTheWhole) {
  const StopCheck never = [] { return OkStatus(); };
  const InferenceResult result = RandomLogits(300);
  v1::ClassifyResponse whole, row;
  ThreadPool pool(3);
  ASSERT_TRUE(EncodeClasses(result, kAll, 1, 299, never, &pool, &whole).ok());
  std::string classes, scores, logits, probabilities;
  for (int64_t r = 1; r < 300; ++r) {
    ASSERT_TRUE(EncodeClasses(result, kAll, r, 1, never, nullptr, &row).ok());  // whatever it held
    classes += row.classes().data();
    scores += row.scores().data();
    logits += row.logits().data();
    probabilities += row.probabilities().data();
  }
  EXPECT_EQ(whole.classes().data(), classes);
  EXPECT_EQ(whole.scores().data(), scores);
  EXPECT_EQ(whole.logits().data(), logits);
  EXPECT_EQ(whole.probabilities().data(), probabilities);
  EXPECT_EQ(whole.classes().dtype(), v1::DATA_TYPE_INT32);
  EXPECT_EQ(whole.scores().dtype(), v1::DATA_TYPE_FLOAT32);
  EXPECT_EQ(whole.classes().shape(0), 299);
  EXPECT_EQ(whole.classes().shape(1), 3);
  EXPECT_EQ(whole.probabilities().shape(1), kClasses);
  EXPECT_EQ(logits.size(), static_cast<size_t>(299 * kClasses * 4));
}

TEST(EncodeResultTest, StopsBetweenBlocks) {
  const InferenceResult result = RandomLogits(400);
  int asked = 0;
  const StopCheck stop = [&] { return ++asked == 2 ? Internal("stopped") : OkStatus(); };
  v1::ClassifyResponse response;
  EXPECT_EQ(EncodeClasses(result, kAll, 0, 400, stop, nullptr, &response).code(), StatusCode::kInternal);
  EXPECT_EQ(asked, 2);
}

v1::ClassifyGraphsRequest OfGraphs(bool logits, bool probabilities, int top_k) {
  v1::ClassifyGraphsRequest request;
  request.set_return_logits(logits);
  request.set_return_probabilities(probabilities);
  if (top_k > 0) request.set_top_k(top_k);
  return request;
}

TEST(EncodeResultTest, RegressionHasNoClasses) {
  const AnswerShape numbers = {10, 3, true};
  v1::ClassifyRequest nodes;
  nodes.set_return_logits(true);
  EXPECT_EQ(DetailOf(CheckWants(*WantsOf(nodes), numbers))->reason, "REGRESSION_MODEL");
  EXPECT_TRUE(CheckWants(*WantsOf(nodes), {10, 3, false}).ok());
  for (const auto& request : {OfGraphs(false, false, 0), OfGraphs(true, true, 0), OfGraphs(true, false, 1)}) {
    const Status refused = CheckWants(*WantsOf(request), numbers);
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(DetailOf(refused)->reason, "REGRESSION_MODEL");
  }
  const ClassifyWants wants = *WantsOf(OfGraphs(true, false, 0));
  EXPECT_TRUE(CheckWants(wants, numbers).ok());
  InferenceResult result = RandomLogits(4);
  result.regression = true;
  v1::ClassifyGraphsResponse response;
  ASSERT_TRUE(EncodeClasses(
                  result, wants, 1, 3, [] { return OkStatus(); }, nullptr, &response)
                  .ok());
  EXPECT_EQ(response.logits().data(),
            std::string(reinterpret_cast<const char*>(result.values.data() + kClasses), 3 * kClasses * sizeof(float)));
  EXPECT_FALSE(response.has_classes());
  EXPECT_FALSE(response.has_scores());
}

TEST(EncodeResultTest, BytesCoverWhatIsMade) {
  const StopCheck never = [] { return OkStatus(); };
  const InferenceResult result = RandomLogits(10);
  v1::ClassifyResponse response;
  ASSERT_TRUE(EncodeClasses(result, kAll, 0, 10, never, nullptr, &response).ok());
  EXPECT_GE(EncodingBytes(kAll, 10, kClasses), 2 * static_cast<int64_t>(response.ByteSizeLong()));
}

TEST(EncodeResultTest, WhatADeviceRankedIsSentAsItIs) {
  const StopCheck never = [] { return OkStatus(); };
  InferenceResult result;
  result.rows = 3;
  result.width = 2;
  result.ranked = RankedRows{2, {1, 0, 0, 1, 1, 0}, {0.75f, 0.25f, 0.5f, 0.5f, 1, 0}, {0.25f, 0.75f, 0.5f, 0.5f, 0, 1}};
  v1::ClassifyResponse response;
  ASSERT_TRUE(EncodeClasses(result, {2, false, true}, 1, 2, never, nullptr, &response).ok());
  const auto bytes = [](const auto& values, size_t first) {
    return std::string(reinterpret_cast<const char*>(values.data() + first), 4 * sizeof(float));
  };
  EXPECT_EQ(response.classes().data(), bytes(result.ranked->classes, 2));
  EXPECT_EQ(response.scores().data(), bytes(result.ranked->scores, 2));
  EXPECT_EQ(response.probabilities().data(), bytes(result.ranked->probabilities, 2));
  EXPECT_FALSE(response.has_logits());

  result.ranked->probabilities.clear();
  result.values = {1, 2, 3, 3, -4, 4};
  ASSERT_TRUE(EncodeClasses(result, {2, true, false}, 1, 2, never, nullptr, &response).ok());
  EXPECT_EQ(response.logits().data(), bytes(result.values, 2));
}

}  // namespace
}  // namespace vicinal::server

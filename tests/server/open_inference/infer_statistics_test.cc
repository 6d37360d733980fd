// SPDX-License-Identifier: Apache-2.0
#include "server/open_inference/infer_statistics.h"

#include <gtest/gtest.h>

namespace vicinal::server {
namespace {

constexpr WallTime At(int64_t ms) { return WallTime(std::chrono::milliseconds(ms)); }

TEST(InferStatisticsTest, AddsUp) {
  InferStatistics statistics;
  v1::Timing shared;
  shared.set_queue_seconds(0.25);
  shared.set_plan_seconds(0.5);
  shared.set_execute_seconds(1.0);
  shared.set_run_request_count(2);
  statistics.Succeeded("g/m", 3, shared, 2.0, At(1000));
  statistics.Succeeded("g/m", 4, shared, 2.0, At(2000));
  v1::Timing kept;
  kept.set_kept_answers(true);
  statistics.Succeeded("g/m", 4, kept, 0.125, At(3000));
  statistics.Failed("g/m", 0.5, At(4000));
  const inference::ModelStatistics one = statistics.Of("g/m");
  EXPECT_EQ(one.version(), "4");
  EXPECT_EQ(one.last_inference(), 3000u);
  EXPECT_EQ(one.inference_count(), 3u);
  EXPECT_EQ(one.execution_count(), 1u) << "two requests shared one run";
  EXPECT_EQ(one.inference_stats().success().count(), 3u);
  EXPECT_EQ(one.inference_stats().success().ns(), 4'125'000'000u);
  EXPECT_EQ(one.inference_stats().fail().count(), 1u);
  EXPECT_EQ(one.inference_stats().queue().ns(), 500'000'000u);
  EXPECT_EQ(one.inference_stats().compute_input().ns(), 1'000'000'000u);
  EXPECT_EQ(one.inference_stats().compute_infer().ns(), 2'000'000'000u);
  EXPECT_EQ(one.inference_stats().compute_output().ns(), 625'000'000u);
  EXPECT_EQ(one.inference_stats().cache_hit().count(), 1u);
}

TEST(InferStatisticsTest, WhoWasNeverAskedHasZeros) {
  const InferStatistics statistics;
  EXPECT_EQ(statistics.Of("g/m").name(), "g/m");
  EXPECT_EQ(statistics.Of("g/m").inference_stats().success().count(), 0u);
  EXPECT_EQ(statistics.Of("g/m").last_inference(), 0u);
  EXPECT_TRUE(statistics.All().empty());
}

TEST(InferStatisticsTest, ForgetsTheOldestWhenThereAreTooMany) {
  InferStatistics statistics;
  const auto size = static_cast<int64_t>(InferStatistics::kMostModels);
  for (int64_t i = 0; i < size; ++i) statistics.Failed("m" + std::to_string(i), 1.0, At(i));
  statistics.Failed("m0", 1.0, At(size));
  statistics.Failed("new", 1.0, At(size + 1));
  EXPECT_EQ(statistics.All().size(), InferStatistics::kMostModels);
  EXPECT_EQ(statistics.Of("m0").inference_stats().fail().count(), 2u);
  EXPECT_EQ(statistics.Of("m1").inference_stats().fail().count(), 0u) << "it was asked longest ago";
  EXPECT_EQ(statistics.Of("new").inference_stats().fail().count(), 1u);
}

}  // namespace
}  // namespace vicinal::server

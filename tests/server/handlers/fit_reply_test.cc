// SPDX-License-Identifier: Apache-2.0
// What replies leave out to stay within a number of bytes: enough, no more than needed, in the order that is promised,
// and counted.
#include "server/handlers/fit_reply.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/api/engine.h"
#include "server/convert_replies.h"
#include "server/convert_tuning.h"

namespace vicinal::server {
namespace {

// gRPC's own limit of what a client takes, and ours.
constexpr int64_t kClientTakes = 4 << 20, kMaxBytes = 4'000'000;

TuningRecord Record(int64_t width) {
  TuningRecord record;
  record.key = {"aggregate", "sum", width};
  // Three times as many as a CPU's kernels have for a sum.
  for (int c = 0; c < 30; ++c) {
    TuningCandidate candidate;
    candidate.setting.kernel = "neighbor_group";
    for (const char* name : {"group_size", "workers", "threads"}) candidate.parameters.push_back({name, 1 << (c % 10)});
    candidate.predicted_seconds = candidate.measured_seconds = candidate.spread = candidate.ratio = 0.5 + c;
    candidate.samples = 20;
    record.candidates.push_back(candidate);
  }
  return record;
}

TEST(FitReplyTest, SmallOnesStayAsTheyAre) {
  v1::GetTuningResponse tuning;
  SetReport({"g", 1, {Record(8), Record(16)}}, &tuning);
  const std::string before = tuning.SerializeAsString();
  FitReply(static_cast<int64_t>(before.size()), &tuning);
  EXPECT_EQ(tuning.SerializeAsString(), before);
  v1::ExplainResponse plan;
  FitReply(0, &plan);
  v1::Model model;
  FitReply(0, &model);
  EXPECT_EQ(plan.ByteSizeLong() + model.ByteSizeLong(), 0u);
}

// TuneGraph may make a graph know 1024 kinds of work, and plans add theirs.
TEST(FitReplyTest, TheKindsOfWorkKnownLastAreKept) {
  constexpr int kKinds = 2048;
  TuningReport report = {"g", 1, {}};
  for (int k = 1; k <= kKinds; ++k) report.records.push_back(Record(k));
  v1::GetTuningResponse tuning;
  SetReport(report, &tuning);
  ASSERT_GT(tuning.ByteSizeLong(), size_t{kClientTakes}) << "nothing to leave out";
  v1::TuneGraphResponse tuned;
  SetReport(report, &tuned);
  FitReply(kMaxBytes, &tuning);
  EXPECT_LE(tuning.ByteSizeLong(), size_t{kMaxBytes});
  EXPECT_GT(tuning.ByteSizeLong(), size_t{kMaxBytes - 20'000}) << "one more would have fitted";
  EXPECT_GT(tuning.records_left_out(), 0);
  EXPECT_EQ(tuning.records_size() + tuning.records_left_out(), kKinds);
  EXPECT_EQ(tuning.records(0).key().width(), tuning.records_left_out() + 1);
  EXPECT_EQ(tuning.records(tuning.records_size() - 1).key().width(), kKinds);
  FitReply(kMaxBytes, &tuned);
  EXPECT_EQ(tuned.records_left_out(), tuning.records_left_out());
}

// A plan of the deepest model there may be: 4096 layers of two steps each.
TEST(FitReplyTest, TheTuningOfTheLastStepsGoesFirst) {
  Explanation explanation;
  explanation.steps.resize(8192);
  explanation.tuning.resize(8192);
  for (size_t i = 0; i < explanation.steps.size(); ++i) {
    explanation.steps[i].layers = "conv" + std::to_string(i / 2);
    explanation.steps[i].description = std::string(100, 'd');
    explanation.decisions.push_back("conv: aggregated first");
    if (i % 2 == 0) explanation.tuning[i] = Record(64);
  }
  v1::ExplainResponse plan = ToProto(explanation);
  ASSERT_GT(plan.ByteSizeLong(), size_t{kClientTakes});
  FitReply(kMaxBytes, &plan);
  EXPECT_LE(plan.ByteSizeLong(), size_t{kMaxBytes});
  EXPECT_EQ(plan.steps_size(), 8192);
  EXPECT_EQ(plan.decisions_size(), 8192);
  EXPECT_EQ(plan.steps_left_out() + plan.decisions_left_out(), 0);
  int told = 0;
  while (told < 4096 && plan.steps(2 * told).has_tuning()) ++told;
  EXPECT_GT(told, 0);
  EXPECT_EQ(told + plan.tuning_left_out(), 4096);

  // Where that is not enough, decisions go, then steps.
  FitReply(500'000, &plan);
  EXPECT_LE(plan.ByteSizeLong(), 500'000u);
  EXPECT_EQ(plan.tuning_left_out(), told);
  EXPECT_EQ(plan.decisions_left_out(), 8192);
  EXPECT_GT(plan.steps_left_out(), 0);
  EXPECT_EQ(plan.steps_size() + plan.steps_left_out(), 8192);
  EXPECT_EQ(plan.steps(0).layers(), "conv0");
}

TEST(FitReplyTest, TheLastLayersOfAModelGo) {
  v1::Model model;
  model.set_name("m");
  for (int i = 0; i < 4096; ++i) {
    v1::Layer* const layer = model.add_layers();
    layer->set_name("layer" + std::to_string(i));
    layer->set_arguments_json(std::string(1100, 'a'));
  }
  ASSERT_GT(model.ByteSizeLong(), size_t{kClientTakes});
  FitReply(kMaxBytes, &model);
  EXPECT_LE(model.ByteSizeLong(), size_t{kMaxBytes});
  EXPECT_GT(model.ByteSizeLong(), size_t{kMaxBytes - 1200});
  EXPECT_EQ(model.layers_size() + model.layers_left_out(), 4096);
  EXPECT_EQ(model.layers(0).name(), "layer0");
  EXPECT_EQ(model.name(), "m");
}

}  // namespace
}  // namespace vicinal::server

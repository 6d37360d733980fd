// SPDX-License-Identifier: Apache-2.0
// What tuning finds and takes: the winner, with the same bits; the default where nothing wins surely.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/engine/tuning/tuning_testing.h"

namespace vicinal::testing {
namespace {

using ::testing::HasSubstr;

TEST_F(TuningTest, AGraphServesAtOnceAndImprovesWithTheSameBits) {
  Make(OneIsTwiceAsFast());
  const auto before = Infer(*engine_, AllNodes("g", "m"));
  ASSERT_TRUE(before.ok()) << before.status();
  const auto records = AwaitTuning("g");
  ASSERT_FALSE(records.empty());
  for (const TuningRecord& record : records) {
    ExpectTheFastOne(record);
    EXPECT_GT(record.used_seconds, 0.0);
    EXPECT_EQ(record.candidates[0].ratio, 1.0);
  }
  const auto after = Infer(*engine_, AllNodes("g", "m"));
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(after->values, before->values);
  EXPECT_EQ(after->served_by.numerics_revision, before->served_by.numerics_revision);

  const auto explanation = engine_->Explain(AllNodes("g", "m"));
  ASSERT_TRUE(explanation.ok());
  ASSERT_EQ(explanation->tuning.size(), explanation->steps.size());
  int tuned = 0;
  for (size_t i = 0; i < explanation->steps.size(); ++i) {
    const PlanStepInfo& step = explanation->steps[i];
    EXPECT_EQ(explanation->tuning[i].has_value(), step.operation == "aggregate") << step.operation;
    if (!explanation->tuning[i].has_value()) continue;
    EXPECT_TRUE(step.tuned);
    EXPECT_EQ(step.kernel, explanation->tuning[i]->choice()->setting.kernel);
    EXPECT_EQ(step.parameters, explanation->tuning[i]->choice()->parameters);
    EXPECT_GT(explanation->tuning[i]->choice()->predicted_seconds, 0.0);
    EXPECT_GE(explanation->tuning[i]->uses, 1);
    ++tuned;
  }
  EXPECT_EQ(tuned, 2);
}

TEST_F(TuningTest, NothingIsTunedUnaskedWhereTheBudgetIsZero) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  (void)Answer();
  const auto noted = engine_->GetTuning("g");
  ASSERT_TRUE(noted.ok()) << noted.status();
  for (const TuningRecord& record : noted->records) EXPECT_EQ(record.state, TuningState::kDefault);
  const auto report = engine_->TuneGraph(Request());
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->records.size(), 2) << "what the plan asked for";
  for (const TuningRecord& record : report->records) ExpectTheFastOne(record);
}

TEST_F(TuningTest, AGainWithinTheNoiseKeepsTheDefault) {
  // Short runs: many rounds before anyone is dropped.
  Make([](const TuningKey&, const KernelSetting&) { return RunSample{1e-3, false}; });
  TuneGraphRequest request = Request({32});
  request.kinds = {"mean"};
  const auto report = engine_->TuneGraph(request);
  ASSERT_TRUE(report.ok());
  for (const TuningRecord& record : report->records) {
    EXPECT_EQ(record.chosen, 0);
    EXPECT_EQ(record.gain, 1.0);
  }
}

TEST_F(TuningTest, ABudgetThatEndsEarlyKeepsTheDefault) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  TuneGraphRequest request = Request({32});
  request.kinds = {"mean"};
  request.budget = std::chrono::milliseconds(15);
  const auto report = engine_->TuneGraph(request);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->records[0].chosen, 0);
  EXPECT_THAT(report->records[0].note, HasSubstr("the default stays"));
  EXPECT_DOUBLE_EQ(report->records[0].budget_seconds, 0.015);
}

TEST_F(TuningTest, DisturbedSamplesAreDroppedAndCounted) {
  std::atomic<int64_t> count{0};
  Make([&count, times = OneIsTwiceAsFast()](const TuningKey& key, const KernelSetting& setting) {
    RunSample sample = times(key, setting);
    // A disturbed run looks like the fastest.
    if (++count % 3 == 0) sample = {1e-6, true};
    return sample;
  });
  TuneGraphRequest request = Request({8});
  request.kinds = {"mean"};
  const auto report = engine_->TuneGraph(request);
  ASSERT_TRUE(report.ok());
  for (const TuningRecord& record : report->records) {
    int64_t dropped = 0;
    for (const TuningCandidate& candidate : record.candidates) dropped += candidate.dropped_samples;
    EXPECT_GT(dropped, 0);
    ExpectTheFastOne(record);
  }
  engine_.reset();  // the meter reads what lies here
}

TEST_F(TuningTest, WhereOtherProgramsAlwaysDisturbTheShortestOfSeveralTriesCounts) {
  std::atomic<int64_t> count{0};
  Make([&count, times = OneIsTwiceAsFast()](const TuningKey& key, const KernelSetting& setting) {
    RunSample sample = times(key, setting);
    // Of four in a row one is as long as it should be.
    return RunSample{++count % 4 == 1 ? sample.seconds : 5.0 * sample.seconds, true};
  });
  TuneGraphRequest request = Request({8});
  request.kinds = {"mean"};
  request.budget = std::chrono::seconds(10);
  const auto report = engine_->TuneGraph(request);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_FALSE(report->records.empty());
  for (const TuningRecord& record : report->records) {
    ExpectTheFastOne(record);
    EXPECT_GT(record.candidates[0].dropped_samples, 0);
  }
  engine_.reset();  // the meter reads what lies here
}

// Whatever kernel and configuration serve, the bits are those of the default.
TEST_F(TuningTest, EveryCandidateGivesTheSameBits) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  const std::vector<float> before = Answer();
  const auto report = engine_->TuneGraph(Request());
  ASSERT_TRUE(report.ok());
  for (const TuningCandidate& candidate : report->records[0].candidates) {
    TuneGraphRequest force = Request();
    force.force = ForcedConfiguration{candidate.setting.kernel, {}};
    for (const NamedParameter& parameter : candidate.parameters)
      force.force->parameters[parameter.name] = parameter.value;
    ASSERT_TRUE(engine_->TuneGraph(force).ok());
    EXPECT_EQ(Answer(), before) << candidate.setting.kernel;
  }
}

}  // namespace
}  // namespace vicinal::testing

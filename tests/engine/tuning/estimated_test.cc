// SPDX-License-Identifier: Apache-2.0
// The strategy `estimated`: when it is used, what it measures, what it says. Kernels and times are the test's own.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/engine/tuning/tuning_alone.h"

namespace vicinal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Takes anything, and says how long that takes.
class Predicted : public AnyAggregate {
 public:
  Predicted(std::string_view name, double seconds) : AnyAggregate(name), seconds_(seconds) {}
  std::optional<double> PredictSeconds(const AggregateProblem&, const KernelConfig&, const WorkShape&) const override {
    return seconds_;
  }

 private:
  const double seconds_;
};

// Has 200 settings; its model takes those near 60 for the best.
class Searched final : public Predicted {
 public:
  explicit Searched(double seconds) : Predicted("searched", seconds) {}
  std::vector<std::string_view> ParameterNames() const override { return {"knob"}; }
  std::vector<std::vector<int32_t>> SearchSpace(const AggregateProblem&) const override {
    std::vector<int32_t> values;
    for (int32_t value = 1; value <= 200; ++value) values.push_back(value);
    return {values};
  }
  std::optional<double> ModelLatency(const AggregateProblem&, const KernelConfig& config,
                                     const WorkShape&) const override {
    return 1.0 + std::abs(config.values[0] - 60);
  }
};

// Budgets count the told times alone.
const Clock& StandingClock() {
  static const FakeClock clock;
  return clock;
}

class EstimatedTest : public TuningAlone {
 protected:
  EstimatedTest()
      : TuningAlone(
            [this](const TuningKey&, const KernelSetting& setting) {
              if (setting.kernel == "searched") knobs_.insert(setting.config.values[0]);
              return times_(setting);
            },
            StandingClock()) {}

  void AddKernels(double seconds) {
    registry_.aggregate.Add(std::make_unique<Predicted>("rows", seconds));
    registry_.aggregate.Add(std::make_unique<Searched>(seconds));
  }
  // The default takes kRunSeconds, settings near 60 `factor` times that, others as long as the default.
  void NearSixtyTakes(double factor) {
    times_ = [factor](const KernelSetting& setting) {
      const bool near = setting.kernel == "searched" && std::abs(setting.config.values[0] - 60) <= 6;
      return RunSample{(near ? factor : 1.0) * kRunSeconds, false};
    };
  }

  std::function<RunSample(const KernelSetting&)> times_;
  std::set<int32_t> knobs_;  // that ran
};

TEST_F(EstimatedTest, MeasuresOnlyWhatTheModelRanksBest) {
  AddKernels(kRunSeconds);
  NearSixtyTakes(0.5);
  const TuningRecord record = Tune(TuningStrategy::kEstimated);
  ASSERT_EQ(record.state, TuningState::kTuned) << record.note;
  EXPECT_EQ(record.strategy, TuningStrategy::kEstimated);
  ASSERT_EQ(record.candidates.size(), 3);  // the default, and the best two of the kernel that is searched
  EXPECT_EQ(record.candidates[0].setting.kernel, "rows");
  ASSERT_EQ(record.choice()->setting.kernel, "searched");
  EXPECT_NEAR(record.choice()->setting.config.values[0], 60, 6);
  EXPECT_NEAR(record.gain, 2.0, 1e-9);
  for (const TuningCandidate& candidate : record.candidates) EXPECT_LE(candidate.samples, 10);
  EXPECT_GT(record.modelled, 50);
  EXPECT_THAT(record.note, StartsWith("estimated: models ranked "));
  EXPECT_THAT(record.note, HasSubstr("search of 1 kernel, 12 generations"));
  // Communities had more settings of the kernel than the contest, in at most half of the budget of a second.
  EXPECT_GT(knobs_.size(), 8);
  EXPECT_GT(record.profile_seconds, 0.0);
  EXPECT_LE(record.profile_seconds, 0.5 + kRunSeconds);
  EXPECT_GT(record.used_seconds, record.profile_seconds);
}

TEST_F(EstimatedTest, CommunitiesAreMeasuredOnce) {
  AddKernels(kRunSeconds);
  NearSixtyTakes(0.5);
  EXPECT_GT(Tune(TuningStrategy::kEstimated).profile_seconds, 0.0);
  const TuningRecord again = Tune(TuningStrategy::kEstimated);
  EXPECT_EQ(again.profile_seconds, 0.0);
  EXPECT_EQ(again.choice()->setting.kernel, "searched");
}

TEST_F(EstimatedTest, MeasurementsOverruleTheModel) {
  AddKernels(kRunSeconds);
  NearSixtyTakes(1.5);
  const TuningRecord record = Tune(TuningStrategy::kEstimated);
  EXPECT_EQ(record.state, TuningState::kTuned);
  EXPECT_EQ(record.choice()->setting.kernel, "rows");
  EXPECT_EQ(record.gain, 1.0);
}

TEST_F(EstimatedTest, MeasuringIsTheRule) {
  AddKernels(kRunSeconds);
  NearSixtyTakes(0.5);
  for (const auto asked : {std::optional<TuningStrategy>(), std::optional(TuningStrategy::kMeasured)}) {
    const TuningRecord record = Tune(asked);
    EXPECT_EQ(record.strategy, TuningStrategy::kMeasured);
    EXPECT_EQ(record.candidates.size(), 2);  // both kernels as they are
    EXPECT_EQ(record.modelled, 0);
    EXPECT_THAT(record.note, Not(HasSubstr("estimated")));
  }
  EXPECT_EQ(knobs_, std::set<int32_t>{0});
}

TEST_F(EstimatedTest, WhatIsTooLargeIsEstimated) {
  AddKernels(kTooLargeRuns * kMaxRunSeconds * 1.01);
  NearSixtyTakes(0.5);
  const TuningRecord record = Tune();
  EXPECT_EQ(record.strategy, TuningStrategy::kEstimated);
  EXPECT_THAT(record.note, StartsWith("estimated, too large to be measured: "));
  EXPECT_EQ(Tune(TuningStrategy::kMeasured).strategy, TuningStrategy::kMeasured);
}

TEST_F(EstimatedTest, WhatIsJustNotTooLargeIsMeasured) {
  AddKernels(kTooLargeRuns * kMaxRunSeconds * 0.99);
  NearSixtyTakes(0.5);
  EXPECT_EQ(Tune().strategy, TuningStrategy::kMeasured);
}

// Now faster, now slower than the default, and always disturbed: of four attempts three are dropped.
TEST_F(EstimatedTest, WhatIsTooBusyIsEstimated) {
  registry_.aggregate.Add(std::make_unique<Predicted>("rows", kRunSeconds));
  registry_.aggregate.Add(std::make_unique<Predicted>("fickle", kRunSeconds));
  int64_t runs = 0;
  times_ = [&runs](const KernelSetting& setting) {
    if (setting.kernel == "rows") return RunSample{kRunSeconds, true};
    return RunSample{(runs++ / 4 % 2 == 0 ? 0.5 : 3.0) * kRunSeconds, true};
  };
  const TuningRecord record = Tune();
  ASSERT_EQ(record.state, TuningState::kTuned) << record.note;
  EXPECT_EQ(record.strategy, TuningStrategy::kEstimated);
  EXPECT_THAT(record.note, StartsWith("estimated, too busy to be measured: "));
  EXPECT_GT(record.used_seconds, 1.0);  // with the measurements before
  EXPECT_EQ(Tune(TuningStrategy::kMeasured).strategy, TuningStrategy::kMeasured);
}

}  // namespace
}  // namespace vicinal::testing

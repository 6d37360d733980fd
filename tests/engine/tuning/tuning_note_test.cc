// SPDX-License-Identifier: Apache-2.0
// What a record's note says: of kernels that take whole graphs only, and of why measuring ended.
#include <gmock/gmock.h>

#include <memory>

#include "tests/engine/tuning/tuning_alone.h"

namespace vicinal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class WholeGraphsOnly final : public AnyAggregate {
 public:
  WholeGraphsOnly() : AnyAggregate("whole") {}
  bool whole_graph_only() const override { return true; }
};

// A default that takes any rows, and one kernel for whole graphs.
class TuningNoteTest : public TuningAlone {
 protected:
  TuningNoteTest()
      : TuningAlone([this](const TuningKey&, const KernelSetting& setting) {
          return RunSample{setting.kernel == "whole" ? ratio_ * kRunSeconds : kRunSeconds, false};
        }) {
    registry_.aggregate.Add(std::make_unique<AnyAggregate>("rows"));
    registry_.aggregate.Add(std::make_unique<WholeGraphsOnly>());
  }

  // The record where "whole" takes `ratio` of the default's time.
  TuningRecord TuneWith(double ratio) {
    ratio_ = ratio;
    return Tune();
  }

 private:
  double ratio_ = 1.0;
};

TEST_F(TuningNoteTest, NamesOneThatLostByItsHandicapOnly) {
  const TuningRecord record = TuneWith(0.9);
  ASSERT_EQ(record.state, TuningState::kTuned) << record.note;
  EXPECT_EQ(record.choice()->setting.kernel, "rows");
  EXPECT_THAT(record.note, HasSubstr("whole takes 0.90 of the default's time, but whole graphs only"));
}

// For some of these ratios 1 / (1 / ratio) is more than the ratio: the winner was told as faster than itself.
TEST_F(TuningNoteTest, NamesNoneBesideAWinnerForWholeGraphs) {
  for (int percent = 30; percent < 80; ++percent) {
    const TuningRecord record = TuneWith(percent / 100.0);
    ASSERT_EQ(record.state, TuningState::kTuned) << record.note;
    EXPECT_EQ(record.choice()->setting.kernel, "whole") << percent;
    EXPECT_THAT(record.note, Not(HasSubstr("whole graphs only"))) << percent;
  }
}

// A default, and one that is now faster, now slower, so that nothing is ever decided.
class UndecidedTest : public TuningAlone {
 protected:
  UndecidedTest()
      : TuningAlone([this](const TuningKey&, const KernelSetting& setting) {
          return RunSample{setting.kernel == "fickle" ? (++runs_ % 2 == 0 ? 0.5 : 3.0) * run_ : run_, false};
        }) {
    registry_.aggregate.Add(std::make_unique<AnyAggregate>("steady"));
  }

  int64_t runs_ = 0;
  double run_ = 0.0;
};

TEST_F(UndecidedTest, TheRoundsMayEndBeforeTheBudget) {
  registry_.aggregate.Add(std::make_unique<AnyAggregate>("fickle"));
  run_ = 1e-6;  // 400 rounds take far less than the second there is
  EXPECT_EQ(Tune().note, "undecided after 400 rounds, the most that are run");
}

TEST_F(UndecidedTest, TheBudgetMayEndBeforeTheRounds) {
  registry_.aggregate.Add(std::make_unique<AnyAggregate>("fickle"));
  run_ = 20e-3;
  EXPECT_THAT(Tune().note, ::testing::StartsWith("the budget ended after "));
}

TEST_F(UndecidedTest, OneCandidateIsNotMeasured) {
  EXPECT_EQ(Tune().note, "one candidate only: nothing to measure");
  EXPECT_EQ(runs_, 0);
}

}  // namespace
}  // namespace vicinal::testing

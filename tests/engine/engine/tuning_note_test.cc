// SPDX-License-Identifier: Apache-2.0
// What a record's note says of kernels that take whole graphs only.
#include <gmock/gmock.h>

#include <memory>

#include "tests/engine/engine/tuning_alone.h"

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

}  // namespace
}  // namespace vicinal::testing

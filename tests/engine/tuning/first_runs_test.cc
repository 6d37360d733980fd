// SPDX-License-Identifier: Apache-2.0
// A kernel that loses the device while it is measured is not measured again.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/tuning/tuning_alone.h"

namespace vicinal {
namespace {

using testing::AnyAggregate;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::TuningWithFirstRuns;

class FailingAggregate final : public AnyAggregate {
 public:
  using AnyAggregate::AnyAggregate;
  Status Run(DeviceContext&, const AggregateArgs&, void*) const override { return Internal("illegal address"); }
};

class FirstRunsTest : public TuningWithFirstRuns {
 protected:
  FirstRunsTest() {
    registry_.aggregate.Add(std::make_unique<AnyAggregate>("good"));
    registry_.aggregate.Add(std::make_unique<FailingAggregate>("bad"));
    registry_.aggregate.Add(std::make_unique<AnyAggregate>("other"));
  }
};

TEST_F(FirstRunsTest, WhatFailedIsNoCandidateAnyMore) {
  const TuningRecord first = Tune();
  EXPECT_EQ(first.state, TuningState::kFailed);
  EXPECT_THAT(first.note, HasSubstr("illegal address"));
  EXPECT_THAT(runs.TakeBegun(), Contains("aggregate bad"));

  const TuningRecord second = Tune();
  EXPECT_EQ(second.state, TuningState::kTuned) << second.note;
  EXPECT_EQ(second.candidates.size(), 2u);
  ASSERT_EQ(second.refused.size(), 1u);
  EXPECT_EQ(second.refused[0].kernel, "bad");
  EXPECT_EQ(second.refused[0].reason, "aggregate bad is quarantined: illegal address");
  const std::vector<std::string> begun = runs.TakeBegun();
  EXPECT_FALSE(begun.empty());
  EXPECT_THAT(begun, Each(::testing::Ne("aggregate bad")));
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/meter.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace vicinal {
namespace {

TEST(RunMeterTest, RunsOnceAndTakesTime) {
  int runs = 0;
  const auto sample = RunMeter::Real().Measure({}, {}, [&] { return ++runs, OkStatus(); });
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(runs, 1);
  EXPECT_GE(sample->seconds, 0.0);
}

TEST(RunMeterTest, ErrorsAreTheRuns) {
  const auto sample = RunMeter::Real().Measure({}, {}, [] { return Internal("broken"); });
  EXPECT_EQ(sample.status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace vicinal

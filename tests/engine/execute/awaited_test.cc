// SPDX-License-Identifier: Apache-2.0
// A value from another thread: whoever is first, it arrives, and what it was handed over in may go at once (the address
// and thread sanitizers look on).
#include "engine/execute/awaited.h"

#include <gtest/gtest.h>

#include <memory>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/execute/executor.h"
#include "tests/engine/execute/numbered_requests.h"

namespace vicinal {
namespace {

TEST(Awaited, AValueThatIsThereIsTaken) {
  Awaited<std::unique_ptr<int>> value;
  value.Set(std::make_unique<int>(7));
  EXPECT_EQ(*value.Take(), 7);
}

TEST(Awaited, AnErrorIsAValue) {
  Awaited<StatusOr<int>> value;
  value.Set(absl::CancelledError("gone"));
  EXPECT_EQ(value.Take().status().code(), StatusCode::kCancelled);
}

TEST(Awaited, ComesFromAnExecutorAndGoesAtOnce) {
  const std::unique_ptr<Device> device = MakeCpuDevice(1);
  testing::ScriptedRunner runner;
  Executor executor(*device, &runner, {1, &Clock::Real(), nullptr});
  constexpr int kRounds = 2000;  // either thread is first in some of them
  for (int round = 0; round < kRounds; ++round) {
    Awaited<std::unique_ptr<int>> request, background;
    ASSERT_TRUE(executor
                    .Submit(testing::Numbered(
                        1, {}, [&](const StatusOr<InferenceResult>&) { request.Set(std::make_unique<int>(round)); }))
                    .ok());
    EXPECT_EQ(*request.Take(), round);
    executor.SubmitBackground(
        {"test", [&](const Status&, DeviceContext&, const Lease&) { background.Set(std::make_unique<int>(-round)); }});
    EXPECT_EQ(*background.Take(), -round);
  }
}

}  // namespace
}  // namespace vicinal

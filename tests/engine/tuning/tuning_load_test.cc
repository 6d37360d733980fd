// SPDX-License-Identifier: Apache-2.0
// Tuning beside all else: limits of the wait, a drain, and concurrent requests.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "tests/engine/tuning/tuning_testing.h"

namespace vicinal::testing {
namespace {

TEST_F(TuningTest, LimitsEndTheWaitNotTheWork) {
  std::promise<void> go_on;
  UseRealClock();
  Make(
      [times = OneIsTwiceAsFast(), released = go_on.get_future().share()](const TuningKey& key,
                                                                          const KernelSetting& setting) {
        released.wait();
        return times(key, setting);
      },
      Nanoseconds::zero());
  TuneGraphRequest request = Request({16});
  request.kinds = {"mean"};
  request.limits.deadline = Clock::Real().Now() - std::chrono::seconds(1);
  // No run ends before the wait does.
  EXPECT_EQ(engine_->TuneGraph(request).status().code(), StatusCode::kDeadlineExceeded);
  go_on.set_value();
  EXPECT_EQ(AwaitTuning("g", /*ordered=*/true)[0].state, TuningState::kTuned);
  request.limits = {};
  request.wait = false;
  EXPECT_TRUE(engine_->TuneGraph(request).ok());
}

TEST_F(TuningTest, ADrainEndsTuningAndNothingHangs) {
  std::promise<void> started;
  std::atomic<bool> told{false};
  UseRealClock();
  Make(
      [&, times = OneIsTwiceAsFast()](const TuningKey& key, const KernelSetting& setting) {
        if (!told.exchange(true)) started.set_value();
        return times(key, setting);
      },
      Nanoseconds::zero());
  TuneGraphRequest request = Request({8, 16, 32, 64, 128});
  request.wait = false;
  ASSERT_TRUE(engine_->TuneGraph(request).ok());
  started.get_future().wait();
  EXPECT_TRUE(engine_->Drain(Clock::Real().Now() + std::chrono::hours(1)));
  engine_.reset();
}

// For the thread sanitizer: requests, explanations and replacements while a graph is tuned over and over.
TEST_F(TuningTest, RequestsWhileTuning) {
  std::atomic<int64_t> turn{0};
  UseRealClock();
  Make(
      [&turn](const TuningKey&, const KernelSetting& setting) {
        // Now this one is faster, now that one.
        return RunSample{(++turn / 200 + setting.config.values[0]) % 2 == 0 ? 1e-4 : 1.2e-4, turn % 11 == 0};
      },
      std::chrono::milliseconds(5));
  const std::vector<float> expected = Answer();
  std::atomic<bool> stop{false};
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> clients;
  clients.emplace_back([&] {
    while (!stop) {
      const auto answer = Infer(*engine_, AllNodes("g", "m"));
      if (!answer.ok() || answer->values != expected) ++wrong;
    }
  });
  clients.emplace_back([&] {
    while (!stop) (void)engine_->Explain(AllNodes("g", "m")), (void)engine_->GetTuning("g");
  });
  TuneGraphRequest reset = Request();
  reset.reset = true;
  TuneGraphRequest force = Request();
  force.force = ForcedConfiguration{"simd_rows", {{"prefetch_edges", 5}}};
  for (int round = 0; round < 5; ++round) {
    // Requests go first, so this may not come to an end.
    TuneGraphRequest request = Request();
    request.limits.deadline = Clock::Real().Now() + std::chrono::milliseconds(500);
    const auto report = engine_->TuneGraph(request);
    EXPECT_TRUE(report.ok() || report.status().code() == StatusCode::kDeadlineExceeded) << report.status();
    EXPECT_TRUE(engine_->TuneGraph(round % 2 ? reset : force).ok());
  }
  GraphSource source = LargeGraph();
  source.replace = true;
  ASSERT_TRUE(engine_->PutGraph(source).ok());
  ASSERT_TRUE(AwaitGraph(*engine_, "g").ok());
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  engine_.reset();  // the meter reads what lies here
}

}  // namespace
}  // namespace vicinal::testing

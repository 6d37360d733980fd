// SPDX-License-Identifier: Apache-2.0
// A request that comes while a kernel is measured does not wait for the end of the run.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "tests/engine/tuning/tuning_alone.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kTasks = 1000;

// A loop of many tasks, which says how many were done.
class LongLoop final : public AnyAggregate {
 public:
  LongLoop(std::string_view name, std::function<void(int64_t done)> each)
      : AnyAggregate(name), each_(std::move(each)) {}
  Status Run(DeviceContext& context, const AggregateArgs&, void*) const override {
    int64_t done = 0;
    context.thread_pool()->ParallelFor(kTasks, [&](int64_t, int) { each_(++done); });
    return OkStatus();
  }

 private:
  const std::function<void(int64_t)> each_;
};

class TuningYieldTest : public TuningAlone {
 protected:
  TuningYieldTest()
      : TuningAlone([](const TuningKey&, const KernelSetting&) {
          return RunSample{kRunSeconds, false};
        }) {
    const auto each = [this](int64_t done) {
      last_ = done;
      if (done == 3 && !asked_) Ask();
    };
    registry_.aggregate.Add(std::make_unique<LongLoop>("first", each));
    registry_.aggregate.Add(std::make_unique<LongLoop>("second", each));
  }

  void Ask() {
    asked_ = true;
    ASSERT_TRUE(executor_
                    .Submit(Numbered(1, {},
                                     [this](const StatusOr<InferenceResult>& result) {
                                       EXPECT_TRUE(result.ok()) << result.status();
                                       done_before_ = last_.load();
                                     }))
                    .ok());
  }

  std::atomic<bool> asked_{false};
  std::atomic<int64_t> last_{0}, done_before_{0};  // tasks of the run at hand; of the one that the request met
};

TEST_F(TuningYieldTest, ARunStopsInTheMiddleAndDoesNotCount) {
  const TuningRecord record = Tune();
  EXPECT_EQ(done_before_, 3) << "no task was begun after the request had come";
  EXPECT_EQ(last_, kTasks) << "runs that nobody disturbs go to their end";
  ASSERT_EQ(record.state, TuningState::kTuned) << record.note;
  EXPECT_EQ(record.candidates[0].dropped_samples + record.candidates[1].dropped_samples, 1);
}

}  // namespace
}  // namespace vicinal::testing

// SPDX-License-Identifier: Apache-2.0
// A kernel that must run on the device to learn what it supports does so in parts, between which requests run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/execute/awaited.h"
#include "engine/tune/work.h"
#include "engine/tuning/leased_runs.h"
#include "engine/tuning/product_work.h"
#include "tests/engine/tuning/tuning_alone.h"

namespace vicinal::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kName[] = "dense_update prepared";
// As if a first proposal was refused in its third run and a second one was accepted.
constexpr int kLoads = 2, kRunsPerLoad = 3, kRuns = kLoads * kRunsPerLoad;
constexpr int64_t kPreparationBytes = 1000;

class AnyProduct : public DenseUpdateKernel {
 public:
  explicit AnyProduct(std::string_view name) : name_(name) {}
  std::string_view name() const override { return name_; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"panels", 1, true}; }
  Refusal WhyUnsupported(const DenseUpdateProblem&) const override { return {}; }
  size_t PackedBytes(int64_t, int64_t) const override { return sizeof(float); }
  void Pack(ConstMatrixView, void*) const override {}
  Status Run(DeviceContext&, const DenseUpdateArgs&, void*) const override { return OkStatus(); }

 private:
  const std::string_view name_;
};

// Knows what it supports after kLoads loads, each with kRunsPerLoad runs.
class PreparedProduct final : public AnyProduct {
 public:
  PreparedProduct() : AnyProduct("prepared") {}
  Refusal WhyNotTried(const DenseUpdateProblem&) const override { return {}; }
  Refusal WhyUnsupported(const DenseUpdateProblem&) const override {
    if (!known_) ++asked_too_early;
    return answer;
  }
  std::unique_ptr<KernelPreparation> Prepare(const DenseUpdateProblem&) const override {
    if (known_) return nullptr;
    return std::make_unique<Preparation>(*this);
  }

  Refusal answer;  // to every problem
  // Called in the parts, which end with what they return.
  std::function<Status()> on_load = [] { return OkStatus(); }, on_run = on_load;
  mutable int begun = 0, held = 0, loads = 0, runs = 0, asked_too_early = 0;

 private:
  class Preparation final : public KernelPreparation {
   public:
    explicit Preparation(const PreparedProduct& kernel) : kernel_(kernel) { ++kernel_.begun, ++kernel_.held; }
    ~Preparation() override { --kernel_.held; }
    int64_t bytes() const override { return kPreparationBytes; }
    Part next() const override {
      if (runs_ == kRuns) return Part::kDone;
      return runs_ == kRunsPerLoad * loads_ ? Part::kLoad : Part::kRun;
    }
    Status Load() override {
      EXPECT_EQ(next(), Part::kLoad);
      ++loads_, ++kernel_.loads;
      return kernel_.on_load();
    }
    Status Run() override {
      EXPECT_EQ(next(), Part::kRun);
      ++runs_, ++kernel_.runs;
      Status ran = kernel_.on_run();
      kernel_.known_ = ran.ok() && runs_ == kRuns;
      return ran;
    }

   private:
    const PreparedProduct& kernel_;
    int loads_ = 0, runs_ = 0;
  };

  mutable bool known_ = false;
};

class PreparationTest : public TuningWithFirstRuns {
 protected:
  PreparationTest() {
    registry_.dense_update.Add(std::make_unique<AnyProduct>("usual"));
    auto other = std::make_unique<PreparedProduct>();
    kernel_ = other.get();
    registry_.dense_update.Add(std::move(other));
    work_.key = KeyOf(DenseUpdateProblem{2, 8, 4}, /*epilogue=*/false);
    graph_->tuning().Note(work_);
  }

  // Of one product, without the measurements that would follow.
  Status Prepare(const std::function<bool()>& stopping = [] { return false; }) {
    const TuningService::Parts parts = Parts();
    return PrepareWith(parts, stopping);
  }
  Status PrepareWith(const TuningTools& tools, const std::function<bool()>& stopping) {
    TuningJob job;
    job.graph = graph_;
    job.work = work_;
    LeasedRuns leased(tools, &executor_, job, stopping);
    return PrepareProductKernels(tools, work_.key, 2, &leased);
  }
  std::thread::id ExecutorsThread() {
    Awaited<std::thread::id> id;
    executor_.SubmitBackground(
        {"test", [&id](const Status&, DeviceContext&, const Lease&) { id.Set(std::this_thread::get_id()); }});
    return id.Take();
  }

  PreparedProduct* kernel_ = nullptr;
};

TEST_F(PreparationTest, LoadsOnTheTunersThreadAndRunsInLeases) {
  std::vector<std::thread::id> loaded_on, ran_on;
  kernel_->on_load = [&] {
    loaded_on.push_back(std::this_thread::get_id());
    EXPECT_GE(budget_.Snapshot().tuning, kPreparationBytes) << "what it holds was reserved before";
    return OkStatus();
  };
  kernel_->on_run = [&] {
    ran_on.push_back(std::this_thread::get_id());
    return OkStatus();
  };
  ASSERT_TRUE(Prepare().ok());
  EXPECT_EQ(loaded_on, std::vector(kLoads, std::this_thread::get_id())) << "of who prepares: no request waits for it";
  EXPECT_EQ(ran_on, std::vector(kRuns, ExecutorsThread()));
  EXPECT_EQ(kernel_->held, 0);
  EXPECT_EQ(budget_.Snapshot().tuning, 0);
}

// The executor is never free of requests, so each run must have a lease of its own: what comes during a run is answered
// before the next one begins.
TEST_F(PreparationTest, RequestsGoBetweenTheRuns) {
  std::vector<std::string> on_executor;
  Awaited<bool> last;
  const auto answered = [&](const StatusOr<InferenceResult>& result) {
    EXPECT_TRUE(result.ok()) << result.status();
    on_executor.push_back("request");
    if (kernel_->runs == kRuns) last.Set(true);
  };
  kernel_->on_run = [&] {
    on_executor.push_back("run");
    return executor_.Submit(Numbered(1, {}, answered));
  };
  ASSERT_TRUE(Prepare().ok());
  last.Take();
  std::vector<std::string> turns;
  for (int i = 0; i < kRuns; ++i) turns.insert(turns.end(), {"run", "request"});
  EXPECT_EQ(on_executor, turns);
}

// While requests keep the executor busy, nothing but loads happens.
TEST_F(PreparationTest, NoRunBeginsBeforeTheRequestsThatWait) {
  Awaited<bool> begun, go;
  runner_.Add(1, [&] { begun.Set(true), go.Take(); });
  std::atomic<bool> answered{false};
  ASSERT_TRUE(executor_.Submit(Numbered(1)).ok());
  begun.Take();
  ASSERT_TRUE(executor_.Submit(Numbered(2, {}, [&](const auto&) { answered = true; })).ok());
  kernel_->on_load = [&, first = true]() mutable {
    if (std::exchange(first, false)) go.Set(true);
    return OkStatus();
  };
  kernel_->on_run = [&] {
    EXPECT_TRUE(answered);
    return OkStatus();
  };
  EXPECT_TRUE(Prepare().ok());
  EXPECT_EQ(kernel_->runs, kRuns);
}

TEST_F(PreparationTest, MarksAreLeftForLoadsAndFirstRuns) {
  ASSERT_TRUE(Prepare().ok());
  EXPECT_THAT(runs.TakeBegun(), ElementsAre(kName, kName, kName, kName)) << "two loads, each with its first run";
  EXPECT_FALSE(runs.HasEndedWell(kName)) << "the kernel itself has not run yet";
}

TEST_F(PreparationTest, TheAnswerIsUsedAndRemembered) {
  const TuningRecord record = Tune(TuningStrategy::kEstimated);
  ASSERT_EQ(record.state, TuningState::kTuned) << record.note;
  EXPECT_EQ(record.candidates.size(), 2u);
  EXPECT_EQ(record.strategy, TuningStrategy::kMeasured) << "products have no models";
  EXPECT_EQ(kernel_->runs, kRuns);
  EXPECT_EQ(Tune().candidates.size(), 2u);
  EXPECT_EQ(kernel_->begun, 1) << "once per process";
  EXPECT_EQ(kernel_->asked_too_early, 0) << "who asks then would wait for all of it";
}

TEST_F(PreparationTest, ARefusalIsAnAnswer) {
  kernel_->answer = "no algorithm keeps the bits of a row";
  for (int i = 0; i < 2; ++i) {
    const TuningRecord record = Tune();
    EXPECT_EQ(record.state, TuningState::kTuned);
    EXPECT_EQ(record.note, "one candidate only: nothing to measure");
    ASSERT_EQ(record.refused.size(), 1u);
    EXPECT_EQ(record.refused[0].kernel, "prepared");
    EXPECT_EQ(record.refused[0].reason, kernel_->answer);
  }
  EXPECT_EQ(kernel_->begun, 1);
  EXPECT_EQ(kernel_->asked_too_early, 0);
}

TEST_F(PreparationTest, WhatIsInterruptedLeavesNothingAndBeginsAnew) {
  const Status stopped = Prepare([this] { return kernel_->runs == kRunsPerLoad + 1; });
  EXPECT_EQ(stopped.code(), StatusCode::kUnavailable) << stopped;
  EXPECT_EQ(kernel_->runs, kRunsPerLoad + 1);
  EXPECT_EQ(kernel_->held, 0);
  EXPECT_EQ(budget_.Snapshot().tuning, 0);

  TuningService::Parts gone = Parts();
  gone.is_current = [this](const PreparedGraph&) { return kernel_->loads < kLoads + 1; };
  const Status replaced = PrepareWith(gone, [] { return false; });
  EXPECT_EQ(replaced.code(), StatusCode::kCancelled) << replaced;
  EXPECT_EQ(kernel_->runs, kRunsPerLoad + 1) << "the graph went after the load";
  EXPECT_EQ(kernel_->held, 0);

  kernel_->runs = kernel_->loads = 0;
  EXPECT_TRUE(Prepare().ok());
  EXPECT_EQ(kernel_->runs, kRuns);
  EXPECT_EQ(kernel_->begun, 3);
  EXPECT_TRUE(Prepare().ok());
  EXPECT_EQ(kernel_->begun, 3);
}

TEST_F(PreparationTest, AFailedRunIsReportedAndTriedAgainOnDemand) {
  const auto fails_once = [this](const std::function<Status()>& failure) {
    kernel_->on_run = [this, failure] { return kernel_->runs == 2 ? failure() : OkStatus(); };
    kernel_->runs = 0;
    const TuningRecord failed = Tune();
    EXPECT_EQ(failed.state, TuningState::kFailed);
    EXPECT_EQ(kernel_->runs, 2) << "nothing ran after the failure";
    EXPECT_EQ(kernel_->held, 0);
    EXPECT_EQ(budget_.Snapshot().tuning, 0);
    return failed.note;
  };
  EXPECT_EQ(
      fails_once([] { return ResourceExhausted("OUT_OF_MEMORY", "the device is full", std::chrono::seconds(1)); }),
      "the device is full");
  EXPECT_THAT(fails_once([]() -> Status { throw std::bad_alloc(); }), HasSubstr("not enough memory to tune"));
  EXPECT_EQ(kernel_->asked_too_early, 0);
  EXPECT_EQ(runs.WhyQuarantined(kName), "") << "a lack of memory says nothing about a kernel";

  kernel_->runs = 2;
  const TuningRecord record = Tune();
  EXPECT_EQ(record.state, TuningState::kTuned) << record.note;
  EXPECT_EQ(record.candidates.size(), 2u);
}

TEST_F(PreparationTest, AFailedLoadIsReported) {
  kernel_->on_load = [] { return ResourceExhausted("OUT_OF_MEMORY", "the device is full", std::chrono::seconds(1)); };
  EXPECT_EQ(Tune().note, "the device is full");
  EXPECT_EQ(kernel_->runs, 0);
  EXPECT_EQ(kernel_->held, 0);
}

// Also in a run without a mark.
TEST_F(PreparationTest, AKernelThatLosesTheDeviceIsNotPreparedAgain) {
  kernel_->on_run = [this] { return kernel_->runs == 2 ? Internal("illegal address") : OkStatus(); };
  const TuningRecord failed = Tune();
  EXPECT_EQ(failed.state, TuningState::kFailed);
  EXPECT_EQ(failed.note, "illegal address");
  const TuningRecord record = Tune();
  EXPECT_EQ(record.note, "one candidate only: nothing to measure");
  ASSERT_EQ(record.refused.size(), 1u);
  EXPECT_EQ(record.refused[0].reason, "dense_update prepared is quarantined: illegal address");
  EXPECT_EQ(kernel_->begun, 1);
  EXPECT_EQ(kernel_->asked_too_early, 0);
}

TEST_F(PreparationTest, WhatDoesNotFitIntoTheBudgetIsNotBegun) {
  MemoryBudget small(kPreparationBytes - 1);
  TuningService::Parts parts = Parts();
  parts.budget = &small;
  const Status refused = PrepareWith(parts, [] { return false; });
  EXPECT_EQ(DetailOf(refused)->reason, "OVER_BUDGET") << refused;
  EXPECT_EQ(kernel_->loads, 0);
  EXPECT_TRUE(runs.TakeBegun().empty());
}

}  // namespace
}  // namespace vicinal::testing

// SPDX-License-Identifier: Apache-2.0
// A kernel that must run on the device to learn what it supports does so in parts, between which requests run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
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
#include "engine/tune/kept_record.h"
#include "engine/tune/work.h"
#include "engine/tuning/leased_runs.h"
#include "engine/tuning/product_work.h"
#include "tests/engine/tuning/tuning_alone.h"

namespace vicinal::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kName[] = "dense_update prepared";
// As if a first proposal was refused in its third run and a second one was accepted.
constexpr int kLoads = 2, kRunsPerLoad = 3, kRuns = kLoads * kRunsPerLoad;
// More than any trial here takes; nobody allocates it.
constexpr int64_t kPreparationBytes = int64_t{1} << 30;

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
  explicit PreparedProduct(std::string_view name = "prepared", int64_t bytes = kPreparationBytes)
      : AnyProduct(name), bytes_(bytes) {}
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
    int64_t bytes() const override { return kernel_.bytes_; }
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

  const int64_t bytes_;
  mutable bool known_ = false;
};

Status DeviceIsFull() { return ResourceExhausted("OUT_OF_MEMORY", "the device is full", std::chrono::seconds(1)); }

class PreparationTest : public TuningWithFirstRuns {
 protected:
  PreparationTest() {
    registry_.dense_update.Add(std::make_unique<AnyProduct>("usual"));
    kernel_ = Add(std::make_unique<PreparedProduct>());
    work_.key = KeyOf(DenseUpdateProblem{2, 8, 4}, /*epilogue=*/false);
    graph_->tuning().Note(work_);
  }

  // `kernel`, after the others.
  template <class K>
  K* Add(std::unique_ptr<K> kernel) {
    K* const added = kernel.get();
    registry_.dense_update.Add(std::move(kernel));
    return added;
  }
  // Takes all of the budget but `free` bytes.
  Reservation Fill(int64_t free) {
    StatusOr<Reservation> taken = budget_.Reserve(Account::kGraphs, kBudgetBytes - free, "the test");
    EXPECT_TRUE(taken.ok()) << taken.status();
    return *std::move(taken);
  }
  // What plans, Explain and the state directory ask of the kernels once the product is tuned.
  void AskAsRequestsDo() const {
    const DenseUpdateProblem problem = DenseUpdateProblemOf(work_.key, 2);
    const std::optional<KernelSetting> found = graph_->tuning().Find(work_.key);
    ASSERT_TRUE(found.has_value());
    EXPECT_TRUE(HasChoice(registry_.dense_update, problem, DeviceKind::kCpu));
    for (const std::string& name : {found->kernel, std::string()})
      EXPECT_TRUE(registry_.dense_update.Choose(problem, DeviceKind::kCpu, name).ok());
    AdjacencyShape shape;
    shape.rows = shape.cols = 2;
    (void)ReductionOrderOf(registry_, DeviceKind::kCpu, shape, work_.key, found);
    const TuningEntry entry{work_, *graph_->tuning().Record(work_.key)};
    const KeptRecord kept = Keep(registry_, DeviceKind::kCpu, entry);
    EXPECT_TRUE(Usable(registry_, DeviceKind::kCpu, shape, false, kept).ok());
  }

  using LeftOut = StatusOr<std::vector<KernelRefusal>>;
  // Of one product, without the measurements that would follow.
  LeftOut Prepare(const std::function<bool()>& stopping = [] { return false; }) {
    const TuningService::Parts parts = Parts();
    return PrepareWith(parts, stopping);
  }
  LeftOut PrepareWith(const TuningTools& tools, const std::function<bool()>& stopping) {
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
  const Status stopped = Prepare([this] { return kernel_->runs == kRunsPerLoad + 1; }).status();
  EXPECT_EQ(stopped.code(), StatusCode::kUnavailable) << stopped;
  EXPECT_EQ(kernel_->runs, kRunsPerLoad + 1);
  EXPECT_EQ(kernel_->held, 0);
  EXPECT_EQ(budget_.Snapshot().tuning, 0);

  TuningService::Parts gone = Parts();
  gone.is_current = [this](const PreparedGraph&) { return kernel_->loads < kLoads + 1; };
  const Status replaced = PrepareWith(gone, [] { return false; }).status();
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

TEST_F(PreparationTest, ALackOfMemoryLeavesTheKernelOutUntilTheNextTuning) {
  const auto fails_once = [this](const std::function<Status()>& failure) {
    kernel_->on_run = [this, failure] { return kernel_->runs == 2 ? failure() : OkStatus(); };
    kernel_->runs = 0;
    const TuningRecord record = Tune();
    EXPECT_EQ(record.state, TuningState::kTuned);
    EXPECT_EQ(kernel_->runs, 2) << "nothing ran after the failure";
    EXPECT_EQ(kernel_->held, 0);
    EXPECT_EQ(budget_.Snapshot().tuning, 0);
    EXPECT_EQ(record.refused.size(), 1u);
    return record.refused.empty() ? "" : record.refused[0].reason;
  };
  EXPECT_EQ(fails_once(&DeviceIsFull), "left out, because it could not be prepared: the device is full");
  EXPECT_THAT(fails_once([]() -> Status { throw std::bad_alloc(); }), HasSubstr("not enough memory to tune"));
  EXPECT_EQ(kernel_->asked_too_early, 0);
  EXPECT_EQ(runs.WhyQuarantined(kName), "") << "a lack of memory says nothing about a kernel";

  kernel_->runs = 2;
  const TuningRecord record = Tune();
  EXPECT_EQ(record.state, TuningState::kTuned) << record.note;
  EXPECT_EQ(record.candidates.size(), 2u);
}

TEST_F(PreparationTest, ALoadThatLacksMemoryToo) {
  kernel_->on_load = &DeviceIsFull;
  const TuningRecord record = Tune();
  EXPECT_EQ(record.state, TuningState::kTuned);
  ASSERT_EQ(record.refused.size(), 1u);
  EXPECT_THAT(record.refused[0].reason, HasSubstr("the device is full"));
  EXPECT_EQ(kernel_->runs, 0);
  EXPECT_EQ(kernel_->held, 0);
  EXPECT_EQ(kernel_->asked_too_early, 0);
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

TEST_F(PreparationTest, AFullBudgetLeavesTheKernelOutAndOthersAreMeasured) {
  Add(std::make_unique<AnyProduct>("third"));
  Reservation full = Fill(kPreparationBytes - 1);
  const TuningRecord without = Tune();
  ASSERT_EQ(without.state, TuningState::kTuned) << without.note;
  ASSERT_EQ(without.candidates.size(), 2u);
  for (const TuningCandidate& candidate : without.candidates) {
    EXPECT_NE(candidate.setting.kernel, "prepared");
    EXPECT_GT(candidate.samples, 0);
  }
  EXPECT_THAT(without.note,
              StartsWith("prepared was left out, because memory was short; tune again when more is free"));
  ASSERT_EQ(without.refused.size(), 1u);
  EXPECT_EQ(without.refused[0].kernel, "prepared");
  EXPECT_THAT(without.refused[0].reason,
              AllOf(StartsWith("left out, because it could not be prepared: preparing a kernel of products needs up to "
                               "1073741824 bytes (1024.0 MiB), 1 bytes more than is free"),
                    HasSubstr("held by graphs")));
  EXPECT_TRUE(without.incomplete);
  EXPECT_EQ(kernel_->loads, 0);
  EXPECT_EQ(kernel_->held, 0);
  EXPECT_EQ(budget_.Snapshot().tuning, 0);
  AskAsRequestsDo();
  EXPECT_EQ(kernel_->asked_too_early, 0) << "who asks would wait for all of it, and it would take what is not reserved";
  EXPECT_TRUE(graph_->tuning().Decided().empty()) << "the next load of the graph tries again";

  full.Release();
  const TuningRecord with = Tune();
  EXPECT_EQ(with.state, TuningState::kTuned) << with.note;
  EXPECT_EQ(with.candidates.size(), 3u);
  EXPECT_TRUE(with.refused.empty());
  EXPECT_THAT(with.note, Not(HasSubstr("left out")));
  EXPECT_FALSE(with.incomplete);
  EXPECT_EQ(kernel_->runs, kRuns);
  EXPECT_EQ(kernel_->asked_too_early, 0);
  EXPECT_EQ(graph_->tuning().Decided().size(), 1u);
}

TEST_F(PreparationTest, AFullBudgetThatLeavesNothingToCompareIsNoFailure) {
  const Reservation full = Fill(0);
  const TuningRecord record = Tune();
  EXPECT_EQ(record.state, TuningState::kTuned);
  EXPECT_EQ(record.note,
            "one candidate only: nothing to measure; prepared was left out, because memory was short; tune again when "
            "more is free");
  EXPECT_EQ(record.refused.size(), 1u);
  EXPECT_EQ(kernel_->asked_too_early, 0);
}

// A choice that was measured without it serves after a restart, too, with its bits.
TEST_F(PreparationTest, AChoiceWithoutTheKernelIsKept) {
  Add(std::make_unique<AnyProduct>("third"));
  faster = "third";
  const Reservation full = Fill(kPreparationBytes - 1);
  const TuningRecord record = Tune();
  ASSERT_NE(record.choice(), nullptr);
  EXPECT_EQ(record.choice()->setting.kernel, "third");
  EXPECT_TRUE(record.incomplete);
  EXPECT_EQ(graph_->tuning().Decided().size(), 1u);
}

TEST_F(PreparationTest, WhatNeverFitsIntoTheBudgetIsNotBegun) {
  MemoryBudget small(kPreparationBytes - 1);
  TuningService::Parts parts = Parts();
  parts.budget = &small;
  const LeftOut left_out = PrepareWith(parts, [] { return false; });
  ASSERT_TRUE(left_out.ok()) << left_out.status();
  ASSERT_EQ(left_out->size(), 1u);
  EXPECT_EQ(left_out->front().kernel, "prepared");
  EXPECT_THAT(left_out->front().reason, HasSubstr("--memory_budget_bytes"));
  EXPECT_EQ(kernel_->loads, 0);
  EXPECT_TRUE(runs.TakeBegun().empty());
}

// One kernel fits, one does not, one finds the device full, and one fits again, for each gave back what it had.
TEST_F(PreparationTest, EachOfSeveralKernelsFitsOrIsLeftOut) {
  PreparedProduct* const large = Add(std::make_unique<PreparedProduct>("large", kPreparationBytes + 1));
  PreparedProduct* const unlucky = Add(std::make_unique<PreparedProduct>("unlucky", kPreparationBytes - 1));
  PreparedProduct* const last = Add(std::make_unique<PreparedProduct>("last", kPreparationBytes));
  std::vector<int64_t> reserved;
  const auto note_reserved = [&] {
    reserved.push_back(budget_.Snapshot().tuning);
    return OkStatus();
  };
  for (PreparedProduct* const kernel : {kernel_, large, unlucky, last}) kernel->on_load = note_reserved;
  unlucky->on_run = [&] { return unlucky->runs == 2 ? DeviceIsFull() : OkStatus(); };
  const Reservation full = Fill(kPreparationBytes);
  const LeftOut left_out = Prepare();
  ASSERT_TRUE(left_out.ok()) << left_out.status();
  ASSERT_EQ(left_out->size(), 2u);
  EXPECT_EQ((*left_out)[0].kernel, "large");
  EXPECT_EQ((*left_out)[1].kernel, "unlucky");
  EXPECT_THAT((*left_out)[1].reason, HasSubstr("the device is full"));
  EXPECT_EQ(reserved, (std::vector<int64_t>{kPreparationBytes, kPreparationBytes, kPreparationBytes - 1,
                                            kPreparationBytes, kPreparationBytes}));
  EXPECT_EQ(kernel_->runs, kRuns);
  EXPECT_EQ(large->loads, 0);
  EXPECT_EQ(last->runs, kRuns);
  EXPECT_EQ(budget_.Snapshot().tuning, 0);

  const TuningRecord record = Tune();
  EXPECT_EQ(record.state, TuningState::kTuned) << record.note;
  EXPECT_EQ(record.candidates.size(), 4u) << "the device is not full any more";
  EXPECT_THAT(record.note, HasSubstr("large was left out"));
  for (const PreparedProduct* const kernel : {kernel_, large, unlucky, last}) {
    EXPECT_EQ(kernel->held, 0);
    EXPECT_EQ(kernel->asked_too_early, 0);
  }
}

TEST_F(PreparationTest, AStopAfterAKernelWasLeftOutGivesAllBack) {
  PreparedProduct* const small = Add(std::make_unique<PreparedProduct>("small", 1));
  const Reservation full = Fill(kPreparationBytes - 1);
  int64_t reserved = 0;
  small->on_run = [&] {
    reserved = budget_.Snapshot().tuning;
    return OkStatus();
  };
  const LeftOut stopped = Prepare([&] { return small->runs == 1; });
  EXPECT_EQ(stopped.status().code(), StatusCode::kUnavailable) << stopped.status();
  EXPECT_EQ(reserved, 1);
  EXPECT_EQ(small->runs, 1);
  EXPECT_EQ(small->held, 0);
  EXPECT_EQ(budget_.Snapshot().tuning, 0);
}

}  // namespace
}  // namespace vicinal::testing

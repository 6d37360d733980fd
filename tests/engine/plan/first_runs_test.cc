// SPDX-License-Identifier: Apache-2.0
// The first run of each kernel configuration in a plan is told, one at a time; what failed is not chosen again.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/tune/work.h"
#include "tests/engine/plan/plan_testing.h"
#include "tests/engine/tune/remembered_runs.h"

namespace vicinal::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kBad[] = "aggregate bad";

// The first choice of every plan; fails like a lost device while `fails` is set.
class SwitchedAggregate final : public AggregateKernel {
 public:
  explicit SwitchedAggregate(const bool* fails) : fails_(fails) {}
  std::string_view name() const override { return "bad"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"bad_order", 1, false}; }
  Refusal WhyUnsupported(const AggregateProblem&) const override { return {}; }
  Status Run(DeviceContext&, const AggregateArgs&, void*) const override {
    return *fails_ ? Internal("illegal address") : OkStatus();
  }

 private:
  const bool* const fails_;
};

std::string ReasonOf(const Status& status) {
  const auto detail = DetailOf(status);
  return detail ? detail->reason : "";
}

class FirstRunsOfPlansTest : public ::testing::Test {
 protected:
  FirstRunsOfPlansTest() {
    std::mt19937 random(3);
    registry_.aggregate.Add(std::make_unique<SwitchedAggregate>(&fails_));
    RegisterCpuKernels(registry_);
    ModelMaker maker(kCols, 1);
    model_ = maker.Done(maker.Linear(maker.Propagate(maker.Linear(0, kCols, true), Reduce::kSum), 5, true));
    graph_ = PrepareEdges(RandomEdges(kNodes, 4 * kNodes, false, random), OrderKind::kNone);
    features_ = UploadFeatures(RandomFeatures(kNodes, kCols, random), kCols, false, *graph_);
  }
  StatusOr<std::shared_ptr<Plan>> Build(ForcedKernels forced = {}) {
    PlanRequest request = RequestFor(model_, graph_, *features_, std::move(forced));
    request.first_runs = &runs_;
    return Plan::Build(request, registry_, *ThePlanBench().device);
  }
  Status Run(Plan& plan, const StopCheck& stop = nullptr) {
    return plan.Run(*ThePlanBench().context, *features_, stop, StatsSink::Null(), Clock::Real()).status();
  }
  static std::vector<std::string> KernelsOf(const Plan& plan) {
    std::vector<std::string> kernels;
    for (const PlanStepInfo& step : plan.Steps()) kernels.push_back(step.operation + " " + step.kernel);
    return kernels;
  }

  static constexpr int64_t kNodes = 30, kCols = 8;
  bool fails_ = false;
  KernelRegistry registry_;
  RememberedRuns runs_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const PreparedGraph> graph_;
  std::shared_ptr<const FeatureMatrix> features_;
};

TEST_F(FirstRunsOfPlansTest, EachConfigurationIsToldOnce) {
  const auto plan = Build();
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_THAT(KernelsOf(**plan), Contains(kBad));
  ASSERT_TRUE(Run(**plan).ok());
  const std::vector<std::string> told = runs_.TakeBegun();
  EXPECT_THAT(told, Contains(kBad).Times(1));
  for (const std::string& kernel : KernelsOf(**plan)) EXPECT_THAT(told, Contains(StartsWith(kernel)));
  ASSERT_TRUE(Run(**plan).ok());
  const auto another = Build();
  ASSERT_TRUE(another.ok() && Run(**another).ok());
  EXPECT_THAT(runs_.TakeBegun(), IsEmpty());
}

TEST_F(FirstRunsOfPlansTest, WhatFailedIsReplacedAndExplained) {
  fails_ = true;
  const auto plan = Build();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Run(**plan).code(), StatusCode::kInternal);
  EXPECT_THAT(runs_.WhyQuarantined(kBad), HasSubstr("illegal address"));
  const auto next = Build();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(KernelsOf(**next), Not(Contains(kBad)));
  EXPECT_TRUE(Run(**next).ok());
  EXPECT_NE((*next)->reduction_order(), (*plan)->reduction_order()) << "another numerics revision";
  std::vector<KernelRefusal> refusals;
  for (const PlanStepInfo& step : (*next)->Steps()) {
    refusals.insert(refusals.end(), step.refusals.begin(), step.refusals.end());
  }
  EXPECT_THAT(refusals,
              Contains(AllOf(Field(&KernelRefusal::kernel, "bad"),
                             Field(&KernelRefusal::reason, "aggregate bad is quarantined: illegal address"))));
  EXPECT_EQ(ReasonOf(Build({{"aggregate", "bad"}}).status()), "KERNEL_QUARANTINED") << "also if it is forced";
}

TEST_F(FirstRunsOfPlansTest, AKernelThatFailsLaterIsBlamedWhenItRunsAloneAgain) {
  const auto plan = Build();
  ASSERT_TRUE(plan.ok() && Run(**plan).ok());
  (void)runs_.TakeBegun();
  fails_ = true;
  EXPECT_EQ(Run(**plan).code(), StatusCode::kInternal);
  EXPECT_EQ(runs_.WhyQuarantined(kBad), "") << "on a GPU the error may be of any step";
  EXPECT_FALSE(runs_.HasEndedWell(kBad));
  EXPECT_EQ(Run(**plan).code(), StatusCode::kInternal);
  EXPECT_NE(runs_.WhyQuarantined(kBad), "");
}

TEST_F(FirstRunsOfPlansTest, AStoppedRunProvesNothing) {
  const auto plan = Build();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Run(**plan, [] { return absl::CancelledError("gone"); }).code(), StatusCode::kCancelled);
  EXPECT_THAT(runs_.TakeBegun(), IsEmpty());
  ASSERT_TRUE(Run(**plan).ok());
  EXPECT_TRUE(runs_.HasEndedWell(kBad));
}

TEST_F(FirstRunsOfPlansTest, WithoutAnyKernelLeftThePlanSaysSo) {
  for (const auto& entry : registry_.aggregate.kernels()) {
    runs_.Quarantine(
        ConfigurationName("aggregate", entry->kernel().name(), NameParameters(entry->kernel(), KernelConfig())));
  }
  const Status refused = Build().status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused), "KERNEL_QUARANTINED");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("by the test"));
}

}  // namespace
}  // namespace vicinal::testing

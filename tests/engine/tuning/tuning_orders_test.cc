// SPDX-License-Identifier: Apache-2.0
// Tuning by order: asked for by name, forced, reset, and orders that cannot be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/tuning/tuning_testing.h"

namespace vicinal::testing {
namespace {

TEST_F(TuningTest, AskedForByName) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  TuneGraphRequest request = Request({8, 16});
  request.kinds = {"mean", "max"};
  const auto report = engine_->TuneGraph(request);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->records.size(), 4);
  for (const TuningRecord& record : report->records) EXPECT_EQ(record.state, TuningState::kTuned);
  request.operation = "attention";
  request.kinds = {"gat", "gatv2", "dot"};
  request.heads = {2};
  EXPECT_EQ(engine_->TuneGraph(request)->records.size(), 6);
  // Each weighting, one more than the defaults' two of a sum.
  request = Request({8});
  request.weights = {"none", "per_edge", "per_source"};
  request.kinds = {"sum"};
  EXPECT_EQ(engine_->TuneGraph(request)->records.size(), 3);
}

// 18 MB of rows, twice, as they are of a middle size: what a trial holds is admitted with its copies.
TEST(TuningBudget, WhatATrialHoldsIsAdmittedBeforeItIsMade) {
  constexpr int64_t kBudget = int64_t{1} << 30, kRoom = 30 << 20;
  ToldMeter meter(OneIsTwiceAsFast());
  EngineOptions options;
  options.tuning_budget = Nanoseconds::zero();
  options.memory_budget_bytes = kBudget;
  const auto engine = MakeEngine(options, &meter);
  PutLargeWorld(*engine);
  TuneGraphRequest request;
  request.graph = "g";
  request.kinds = {"max"};
  request.widths = {100};
  request.wait = true;
  {
    const auto others =
        engine->memory().Reserve(Account::kRequests, kBudget - kRoom - engine->memory().Snapshot().total(), "others");
    ASSERT_TRUE(others.ok()) << others.status();
    const auto report = engine->TuneGraph(request);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->records[0].state, TuningState::kFailed);
    EXPECT_THAT(report->records[0].note, ::testing::HasSubstr("tuning this graph"));
  }
  const auto report = engine->TuneGraph(request);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->records[0].state, TuningState::kTuned) << report->records[0].note;
}

TEST_F(TuningTest, ForcedAndForgotten) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  const std::vector<float> before = Answer();
  TuneGraphRequest force = Request();
  force.force = ForcedConfiguration{"simd_rows", {{"prefetch_edges", 5}}};
  const auto forced = engine_->TuneGraph(force);
  ASSERT_TRUE(forced.ok()) << forced.status();
  EXPECT_EQ(forced->records.size(), 2);
  for (const TuningRecord& record : forced->records) EXPECT_EQ(record.state, TuningState::kForced);
  auto explanation = engine_->Explain(AllNodes("g", "m"));
  for (const PlanStepInfo& step : explanation->steps) {
    if (step.operation != "aggregate") continue;
    EXPECT_THAT(step.parameters, ::testing::Contains(NamedParameter{"prefetch_edges", 5}));
  }
  EXPECT_EQ(Answer(), before);
  TuneGraphRequest reset = Request();
  reset.reset = true;
  ASSERT_TRUE(engine_->TuneGraph(reset).ok());
  explanation = engine_->Explain(AllNodes("g", "m"));
  for (const PlanStepInfo& step : explanation->steps) {
    EXPECT_FALSE(step.tuned);
    EXPECT_THAT(step.parameters, ::testing::Not(::testing::Contains(NamedParameter{"prefetch_edges", 5})));
  }
  EXPECT_EQ(Answer(), before);
}

// Both operations have a kernel simd_rows, only aggregate's has parameters and only aggregate has tiled_rows.
TEST_F(TuningTest, AForcedKernelIsForTheOperationsThatHaveIt) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  (void)Answer();  // two sums
  TuneGraphRequest reset = Request({4});
  reset.operation = "attention";
  reset.reset = true;  // makes the work known
  ASSERT_TRUE(engine_->TuneGraph(reset).ok());
  const auto forced = [&](const std::string& kernel, const std::map<std::string, int32_t>& parameters,
                          std::vector<int64_t> widths) {
    TuneGraphRequest request = Request(std::move(widths));
    request.force = ForcedConfiguration{kernel, parameters};
    const auto report = engine_->TuneGraph(request);
    EXPECT_TRUE(report.ok()) << report.status();
    std::map<std::string, int> works;
    if (report.ok())
      for (const TuningRecord& record : report->records) ++works[record.key.operation];
    return works;
  };
  using Works = std::map<std::string, int>;
  EXPECT_EQ(forced("simd_rows", {}, {}), (Works{{"aggregate", 2}, {"attention", 1}}));
  EXPECT_EQ(forced("simd_rows", {{"few_edges", 1}}, {}), (Works{{"aggregate", 2}}));
  EXPECT_EQ(forced("tiled_rows", {}, {}), (Works{{"aggregate", 2}}));
  EXPECT_EQ(forced("tiled_rows", {}, {24}), (Works{{"aggregate", 4}})) << "sum twice, mean, max";
}

TEST_F(TuningTest, WithoutWidthsItIsWhatIsKnown) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  TuneGraphRequest request = Request();
  request.force = ForcedConfiguration{"simd_rows", {}};
  EXPECT_EQ(engine_->TuneGraph(request)->records.size(), 2) << "of the plan that was made with the model";
  (void)Answer();
  const auto count = [&](auto narrow) {
    TuneGraphRequest narrowed = Request();
    narrowed.reset = true;
    narrow(&narrowed);
    const auto report = engine_->TuneGraph(narrowed);
    return report.ok() ? static_cast<int>(report->records.size()) : -1;
  };
  EXPECT_EQ(count([](auto* r) { r->operation = "aggregate"; }), 2);
  EXPECT_EQ(count([](auto* r) { r->kinds = {"sum"}; }), 2);
  EXPECT_EQ(count([](auto* r) { r->kinds = {"max", "min"}; }), -1);
  EXPECT_EQ(count([](auto* r) { r->weights = {"per_source"}; }), 1);
  EXPECT_EQ(count([](auto* r) { r->weights = {"per_source", "none"}; }), 2);
  EXPECT_EQ(count([](auto* r) { r->weights = {"per_edge"}; }), -1);
  EXPECT_EQ(count([](auto* r) { r->operation = "attention"; }), -1);
}

// Counts and times of a plan were gone whenever any choice of its graph changed.
TEST_F(TuningTest, StepsThatAreNotTouchedKeepTheirTimes) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  for (int run = 0; run < 3; ++run) (void)Answer();
  const auto before = engine_->Explain(AllNodes("g", "m"));
  ASSERT_TRUE(before.ok()) << before.status();
  TuneGraphRequest force = Request({8});
  force.force = ForcedConfiguration{"simd_rows", {{"prefetch_edges", 5}}};
  const auto forced = engine_->TuneGraph(force);
  ASSERT_TRUE(forced.ok()) << forced.status();
  const auto after = engine_->Explain(AllNodes("g", "m"));
  ASSERT_TRUE(after.ok());
  ASSERT_EQ(after->steps.size(), before->steps.size());
  int changed = 0;
  for (size_t i = 0; i < after->steps.size(); ++i) {
    const PlanStepInfo &was = before->steps[i], &is = after->steps[i];
    EXPECT_EQ(was.run_count, 3);
    if (was.parameters != is.parameters) {
      ++changed;
      EXPECT_EQ(is.run_count, 0) << "times with other parameters say nothing of these";
    } else {
      EXPECT_EQ(is.run_count, 3) << is.description;
      EXPECT_NEAR(is.total_seconds, was.total_seconds, 1e-6);
    }
  }
  EXPECT_EQ(changed, 1);
}

TEST_F(TuningTest, WhatIsNamedTwiceIsMeantOnceAndATableHasAnEnd) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  TuneGraphRequest force = Request();
  force.kinds = {"mean", "mean"};
  force.widths.assign(20'000, 8);
  force.force = ForcedConfiguration{"simd_rows", {}};
  const auto once = engine_->TuneGraph(force);
  ASSERT_TRUE(once.ok()) << once.status();
  EXPECT_EQ(once->records.size(), 1);
  StatusOr<TuningReport> last = once;
  for (int64_t first = 100; first < 2'000 && last.ok(); first += 200) {
    force.widths.resize(200);
    std::iota(force.widths.begin(), force.widths.end(), first);
    last = engine_->TuneGraph(force);
  }
  EXPECT_EQ(last.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(last.status())->reason, "TUNING_TABLE_FULL");
}

TEST_F(TuningTest, WhatIsForcedWhileItWaitsStaysForced) {
  std::promise<void> started, go_on;
  std::atomic<bool> told{false};
  Make(
      [&, times = OneIsTwiceAsFast()](const TuningKey& key, const KernelSetting& setting) {
        if (!told.exchange(true)) {
          started.set_value();
          go_on.get_future().wait();
        }
        return times(key, setting);
      },
      Nanoseconds::zero());
  TuneGraphRequest order = Request({8, 16});
  order.kinds = {"mean"};
  order.wait = false;
  ASSERT_TRUE(engine_->TuneGraph(order).ok());
  started.get_future().wait();
  TuneGraphRequest force = Request({16});
  force.kinds = {"mean"};
  force.force = ForcedConfiguration{"simd_rows", {{"prefetch_edges", 5}}};
  ASSERT_TRUE(engine_->TuneGraph(force).ok());
  go_on.set_value();
  TuneGraphRequest next = Request({32});
  next.kinds = {"mean"};
  ASSERT_TRUE(engine_->TuneGraph(next).ok());  // after what was ordered before it
  const auto report = engine_->GetTuning("g");
  ASSERT_TRUE(report.ok());
  const std::vector<TuningRecord> ordered = Ordered(report->records);
  ASSERT_EQ(ordered.size(), 3);
  for (const TuningRecord& record : ordered) {
    EXPECT_EQ(record.state, record.key.width == 16 ? TuningState::kForced : TuningState::kTuned)
        << Describe(record.key);
  }
  engine_.reset();  // the meter reads what lies here
}

TEST_F(TuningTest, BadInputNamesItsField) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  (void)Answer();
  struct Case {
    const char* reason;
    const char* field;
    std::function<void(TuneGraphRequest*)> spoil;
  };
  const Case cases[] = {
      {"BAD_WIDTH", "widths[1]",
       [](auto* r) {
         r->widths = {16, 0};
       }},
      {"BAD_WIDTH", "widths[0]", [](auto* r) { r->widths = {1 << 20}; }},
      {"BAD_WIDTH", "heads", [](auto* r) { r->operation = "attention", r->heads = {5000}; }},
      {"WIDTHS_MISSING", "widths", [](auto* r) { r->widths = {}, r->kinds = {"max"}; }},
      {"OPERATION_UNKNOWN", "operation", [](auto* r) { r->operation = "aggregation"; }},
      {"KIND_UNKNOWN", "kinds[0]", [](auto* r) { r->kinds = {"median"}; }},
      {"HEADS_UNEXPECTED", "heads", [](auto* r) { r->heads = {2}; }},
      {"WEIGHTS_UNKNOWN", "weights[0]", [](auto* r) { r->weights = {"heavy"}; }},
      {"WEIGHTS_UNEXPECTED", "weights", [](auto* r) { r->operation = "attention", r->weights = {"none"}; }},
      {"TOO_MANY_COMBINATIONS", "widths",
       [](auto* r) { r->widths.resize(300), std::iota(r->widths.begin(), r->widths.end(), 1); }},
      {"BAD_BUDGET", "budget", [](auto* r) { r->budget = std::chrono::seconds(-1); }},
      {"TUNING_TOO_LONG", "budget",
       [](auto* r) { r->widths = {1, 2, 3, 4, 5, 6, 7}, r->budget = std::chrono::minutes(10); }},
      {"RESET_AND_FORCE", "reset",
       [](auto* r) {
         r->reset = true, r->force = ForcedConfiguration{"simd_rows", {}};
       }},
      {"STRATEGY_UNUSED", "strategy", [](auto* r) { r->reset = true, r->strategy = TuningStrategy::kEstimated; }},
      {"STRATEGY_UNUSED", "strategy",
       [](auto* r) {
         r->force = ForcedConfiguration{"simd_rows", {}}, r->strategy = TuningStrategy::kMeasured;
       }},
      {"KERNEL_MISSING", "force.kernel", [](auto* r) { r->force = ForcedConfiguration{}; }},
      {"KERNEL_UNKNOWN", "force.kernel",
       [](auto* r) {
         r->force = ForcedConfiguration{"warp", {}};
       }},
      {"KERNEL_UNKNOWN", "force.kernel",
       [](auto* r) {
         r->operation = "attention", r->force = ForcedConfiguration{"tiled_rows", {}};
       }},
      {"PARAMETER_UNKNOWN", "force.parameters['colour']",
       [](auto* r) {
         r->force = ForcedConfiguration{"simd_rows", {{"colour", 1}}};
       }},
  };
  for (const Case& c : cases) {
    TuneGraphRequest request = Request({16});
    c.spoil(&request);
    const auto report = engine_->TuneGraph(request);
    ASSERT_EQ(report.status().code(), StatusCode::kInvalidArgument) << c.reason;
    EXPECT_EQ(DetailOf(report.status())->reason, c.reason);
    EXPECT_EQ(DetailOf(report.status())->field, c.field);
  }
  TuneGraphRequest unknown = Request({16});
  unknown.graph = "nothing";
  EXPECT_EQ(engine_->TuneGraph(unknown).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(engine_->GetTuning("nothing").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(engine_->GetTuning("g")->records.size(), 2) << "what was refused is not noted";
}

// Nothing is left QUEUED of what nobody will measure any more.
TEST_F(TuningTest, OfAGraphThatIsDeletedMeanwhileAllThatIsLeftHasFailed) {
  std::atomic<bool> deleted{false};
  Make(
      [&](const TuningKey&, const KernelSetting&) {
        if (!deleted.exchange(true)) {
          EXPECT_TRUE(engine_->DeleteGraph("g", 0).ok());
        }
        return RunSample{kRunSeconds, false};
      },
      Nanoseconds::zero());
  const auto report = engine_->TuneGraph([&] {
    TuneGraphRequest request = Request({8, 12, 16});
    request.kinds = {"sum"};
    request.weights = {"none"};
    request.budget = std::chrono::seconds(1);
    return request;
  }());
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->records.size(), 3);
  for (const TuningRecord& record : report->records) {
    EXPECT_EQ(record.state, TuningState::kFailed) << Describe(record.key);
    EXPECT_EQ(record.note, "the graph was replaced or deleted meanwhile");
  }
}

}  // namespace
}  // namespace vicinal::testing

// SPDX-License-Identifier: Apache-2.0
// Forcing a kernel that looks at the graph first: it is asked then, not by the requests that follow.
#include "engine/tuning/forced_setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "tests/engine/plan/plan_testing.h"

namespace vicinal::testing {
namespace {

// Takes adjacencies of so many edges at least.
class DenseOnlyKernel final : public AggregateKernel {
 public:
  std::string_view name() const override { return "dense_only"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"even_odd_blocks", 1, true}; }
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    return problem.width == 7 ? "no primes" : Refusal();
  }
  std::vector<std::string_view> ParameterNames() const override { return {"edges"}; }
  std::string LayoutName(const AggregateProblem&, const KernelConfig& config) const override {
    return std::to_string(config.values[0]);
  }
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem&, const KernelConfig& config,
                                          LayoutSource& source) const override {
    if (source.adjacency().nnz >= config.values[0]) return AdjacencyLayoutRef(std::make_shared<Nothing>());
    return FailedPrecondition("KERNEL_REFUSED", "there are not enough edges");
  }
  int64_t LayoutBytesBound(int64_t, int64_t edges) const override { return 10 * edges; }
  Status Run(DeviceContext&, const AggregateArgs&, void*) const override { return OkStatus(); }

 private:
  struct Nothing final : AdjacencyLayout {
    int64_t size_bytes() const override { return 1; }
  };
};

class ForcedSettingTest : public ::testing::Test {
 protected:
  ForcedSettingTest() {
    RegisterCpuKernels(registry_);
    registry_.aggregate.Add(std::make_unique<DenseOnlyKernel>());
    std::mt19937 random(3);
    graph_ = PrepareEdges(RandomEdges(60, 240, false, random), OrderKind::kNone);
    tools_ = {&registry_, DeviceKind::kCpu, &Clock::Real(), {}};
  }
  static TuningWork WorkOf(int64_t width) {
    TuningWork work;
    work.key.operation = "aggregate";
    work.key.kind = "sum";
    work.key.width = width;
    return work;
  }
  StatusOr<std::vector<TuningRecord>> Force(int32_t edges, const std::vector<TuningWork>& works) {
    return ForcedRecords(tools_, *graph_, works, {"dense_only", {{"edges", edges}}});
  }

  KernelRegistry registry_;
  std::shared_ptr<const PreparedGraph> graph_;
  ForceTools tools_;
};

TEST_F(ForcedSettingTest, WhatTheKernelPreparesIsAdmittedAndMadeOnce) {
  int64_t asked = 0, times = 0;
  tools_.admit = [&](int64_t bytes) {
    asked = bytes, ++times;
    return OkStatus();
  };
  const auto records = Force(240, {WorkOf(8), WorkOf(16)});
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 2);
  EXPECT_EQ((*records)[1].state, TuningState::kForced);
  EXPECT_EQ((*records)[1].key, WorkOf(16).key);
  EXPECT_EQ((*records)[1].choice()->setting, (KernelSetting{"dense_only", {{240}}}));
  EXPECT_TRUE(graph_->Holds(AdjacencySpec(), "dense_only", "240"));
  EXPECT_EQ(asked, 2400);
  EXPECT_EQ(times, 1);
  tools_.admit = [](int64_t) { return ResourceExhausted("BUDGET_FULL", "full", std::chrono::seconds(1)); };
  EXPECT_TRUE(Force(240, {WorkOf(8)}).ok()) << "it is there";
  EXPECT_EQ(Force(3, {WorkOf(8)}).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(ForcedSettingTest, AKernelThatFindsNothingToDoIsRefused) {
  const auto refused = Force(1000, {WorkOf(8)});
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(refused.status())->reason, "KERNEL_REFUSED");
  EXPECT_EQ(DetailOf(refused.status())->field, "force.kernel");
  EXPECT_EQ(std::string(refused.status().message()),
            "kernel 'dense_only' cannot be forced for " + Describe(WorkOf(8).key) +
                " on this graph: there are not enough edges; force another, or let tuning choose");
  EXPECT_FALSE(graph_->Holds(AdjacencySpec(), "dense_only", "1000"));
}

TEST_F(ForcedSettingTest, OtherErrorsComeAsTheyAre) {
  EXPECT_EQ(DetailOf(ForcedRecords(tools_, *graph_, {WorkOf(8)}, {}).status())->reason, "KERNEL_MISSING");
  EXPECT_EQ(DetailOf(Force(-7, {WorkOf(8)}).status())->reason, "PARAMETER_RANGE");
  const Status no_primes = Force(1, {WorkOf(8), WorkOf(7)}).status();
  EXPECT_EQ(no_primes.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(no_primes.message()), ::testing::HasSubstr("no primes"));
}

}  // namespace
}  // namespace vicinal::testing

// SPDX-License-Identifier: Apache-2.0
// A run that is stopped inside a step: the rest of the step is left out, on one thread and on several, and the plan
// runs as ever afterwards. Sizes are such that each step is cut into several tasks.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/plan/plan_testing.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kNodes = 4000, kEdges = 250'000, kCols = 256;

class StopInside : public ::testing::TestWithParam<int> {
 protected:
  StopInside() : device_(MakeCpuDevice(GetParam())), context_(device_->CreateContext()) {
    std::mt19937 random(4);
    graph_ = PrepareEdges(RandomEdges(kNodes, kEdges, false, random), OrderKind::kNone);
    features_ = UploadFeatures(RandomFeatures(kNodes, kCols, random), kCols, false, *graph_);
  }

  std::shared_ptr<Plan> Build(const std::shared_ptr<const Model>& model, const ForcedKernels& forced = {}) {
    PlanRequest request = RequestFor(model, graph_, *features_, forced);
    request.num_threads = GetParam();
    return *Plan::Build(request, ThePlanBench().registry, *device_);
  }

  // The rows, or why there are none. Stops when it is asked for the `last + 1`st time; counts in `asked`.
  StatusOr<std::vector<float>> Run(Plan& plan, int last, int* asked) {
    const StopCheck stop = [&] { return ++*asked <= last ? OkStatus() : absl::CancelledError("gone"); };
    const auto rows = plan.Run(*context_, *features_, stop, StatsSink::Null(), Clock::Real());
    if (!rows.ok()) return rows.status();
    std::vector<float> copy;
    for (int64_t r = 0; r < rows->rows; ++r) copy.insert(copy.end(), rows->row(r), rows->row(r) + rows->cols);
    return copy;
  }

  // Stops `plan` at each of the first moments at which it asks, and runs it in between. There is one before each step
  // and at least one inside a step.
  void StopAtEachMoment(Plan& plan, const std::string& what) {
    constexpr int kNever = 1'000'000;
    int moments = 0;
    const StatusOr<std::vector<float>> expected = Run(plan, kNever, &moments);
    ASSERT_TRUE(expected.ok()) << what << expected.status();
    const int64_t steps = static_cast<int64_t>(plan.Steps().size());
    for (int last = 0; last <= steps; ++last) {
      const int64_t before = FullRuns(plan);
      int asked = 0;
      EXPECT_EQ(Run(plan, last, &asked).status().code(), StatusCode::kCancelled) << what << ", " << last;
      EXPECT_EQ(asked, last + 1) << what << ": nobody asks again who was told to stop";
      EXPECT_LT(FullRuns(plan) - before, steps) << what << ": a stopped step is no run";
      asked = 0;
      const StatusOr<std::vector<float>> after = Run(plan, kNever, &asked);
      ASSERT_TRUE(after.ok()) << what << after.status();
      EXPECT_EQ(*after, *expected) << what << ", stopped at " << last;
    }
  }

  static int64_t FullRuns(const Plan& plan) {
    int64_t runs = 0;
    for (const PlanStepInfo& step : plan.Steps()) runs += step.run_count;
    return runs;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceContext> context_;
  std::shared_ptr<const PreparedGraph> graph_;
  std::shared_ptr<const FeatureMatrix> features_;
};

// A cancelled call's aggregation of seconds went to its end, and others waited for it.
TEST_P(StopInside, AModelOfOneStepIsStopped) {
  ModelMaker maker(kCols);
  const auto model = maker.Done(maker.Propagate(0, Reduce::kMax));
  for (const char* kernel : {"simd_rows", "tiled_rows", "tiled_rows:source_rows=300,shared=1"}) {
    const auto plan = Build(model, {{"aggregate", kernel}});
    ASSERT_EQ(plan->Steps().size(), 1u);
    int asked = 0;
    EXPECT_EQ(Run(*plan, 1, &asked).status().code(), StatusCode::kCancelled) << kernel;
    EXPECT_EQ(plan->Steps()[0].run_count, 0);
    StopAtEachMoment(*plan, kernel);
  }
}

TEST_P(StopInside, EveryKindOfStepStopsAndStartsAgain) {
  ModelMaker maker(kCols);
  ValueId x = maker.Activate(maker.Linear(0, 32, true), ActivationKind::kRelu);
  x = maker.LayerNorm(maker.Attention(maker.Linear(x, 32, false), 2, true), false);
  x = maker.EdgeConv(x, Reduce::kMax, {16, 8}, {0, 0});
  const auto model = maker.Done(maker.Normalize(maker.Propagate(maker.Linear(x, 20, true), Reduce::kMean)));
  StopAtEachMoment(*Build(model), "all kinds");
}

INSTANTIATE_TEST_SUITE_P(Threads, StopInside, ::testing::Values(1, 2));

}  // namespace
}  // namespace vicinal::testing

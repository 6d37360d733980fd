// SPDX-License-Identifier: Apache-2.0
// A few hundred bytes can declare tens of thousands of steps: planning them takes time in proportion to their number,
// and ends soon where nobody waits for the plan any more.
#include <gtest/gtest.h>

#include <ctime>

#include "tests/engine/plan/plan_testing.h"

namespace vicinal::testing {
namespace {

class DeepModels : public ::testing::Test {
 protected:
  DeepModels() {
    std::mt19937 random(3);
    graph_ = PrepareEdges(RandomEdges(20, 60, false, random), OrderKind::kNone);
    features_ = UploadFeatures(RandomFeatures(20, 4, random), 4, false, *graph_);
  }

  // APPNP: every step reads what the first one made.
  static std::shared_ptr<const Model> Teleporting(int layers, int steps) {
    ModelMaker maker(4);
    ValueId x = 0;
    for (int layer = 0; layer < layers; ++layer) {
      const ValueId begin = x;
      for (int step = 0; step < steps; ++step) x = maker.Mix(maker.Propagate(x, Reduce::kSum), 0.9, begin, 0.1);
    }
    return maker.Done(x);
  }

  StatusOr<std::shared_ptr<Plan>> Build(const std::shared_ptr<const Model>& model, const StopCheck& stop = nullptr) {
    const auto admit = [](int64_t) { return OkStatus(); };
    return Plan::Build(RequestFor(model, graph_, *features_), ThePlanBench().registry, *ThePlanBench().device, admit,
                       stop);
  }

  std::shared_ptr<const PreparedGraph> graph_;
  std::shared_ptr<const FeatureMatrix> features_;
};

// Quadratic planning took 56 s; what it takes now is 0.4 s, or some seconds under a sanitizer.
TEST_F(DeepModels, PlanningIsLinearInSteps) {
  constexpr double kMaxSeconds = 20;
  const auto model = Teleporting(16, 1000);
  const std::clock_t begin = std::clock();
  const auto plan = Build(model);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, kMaxSeconds);
  EXPECT_EQ((*plan)->Steps().size(), 16'000u);
  EXPECT_EQ((*plan)->field().levels.size(), 16'001u);
}

TEST_F(DeepModels, PlanningStopsWhereNobodyWaits) {
  const auto model = Teleporting(2, 10);
  int moments = 0;
  ASSERT_TRUE(Build(model, [&] { return ++moments, OkStatus(); }).ok());
  EXPECT_GE(moments, 20) << "once per step at least";
  for (int last = 0; last < moments; ++last) {
    int asked = 0;
    const auto plan = Build(model, [&] { return ++asked <= last ? OkStatus() : absl::CancelledError("gone"); });
    EXPECT_EQ(plan.status().code(), StatusCode::kCancelled) << last;
    EXPECT_EQ(asked, last + 1) << "nobody asks again who was told to stop";
  }
}

}  // namespace
}  // namespace vicinal::testing

// SPDX-License-Identifier: Apache-2.0
// A plan that has run once allocates nothing more: operator new is counted while it runs again.

#include "tests/engine/counting_new.h"
#include "tests/engine/plan/plan_testing.h"

namespace vicinal::testing {
namespace {

TEST(PlanAllocations, NoneOnceWarm) {
  constexpr int64_t kNodes = 3000, kCols = 40;
  std::mt19937 random(3);
  const auto graph = PrepareEdges(RandomEdges(kNodes, 30000, false, random), OrderKind::kRcm);
  const std::vector<double> x = RandomFeatures(kNodes, kCols, random);
  ModelMaker maker(kCols);
  // A layer of every kind that has a launch of its own.
  ValueId v = maker.Attention(maker.Linear(0, 32, false), 4, true);
  v = maker.AttentionV2(maker.Linear(v, 32, true), maker.Linear(v, 32, true), 4, true);
  v = maker.Sum(maker.Linear(maker.Propagate(v, Reduce::kMax), 16, true), maker.Linear(v, 16, false));
  v = maker.LayerNorm(maker.Normalize(v), false);
  v = maker.Linear(maker.Propagate(maker.Concat({v, maker.Activate(v, ActivationKind::kElu)}), Reduce::kMean), 7, true);
  const auto model = maker.Done(v);
  for (const bool sparse : {false, true}) {
    const auto features = UploadFeatures(x, kCols, sparse, *graph);
    auto& bench = ThePlanBench();
    const auto plan = Plan::Build(RequestFor(model, graph, *features), bench.registry, *bench.device);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const StopCheck stop = [] { return OkStatus(); };
    ASSERT_TRUE((*plan)->Run(*bench.context, *features, stop, StatsSink::Null(), Clock::Real()).ok());
    const int64_t before = allocations.load();
    ASSERT_GT(before, 0);
    ASSERT_TRUE((*plan)->Run(*bench.context, *features, stop, StatsSink::Null(), Clock::Real()).ok());
    EXPECT_EQ(allocations.load() - before, 0) << (sparse ? "sparse" : "dense");
  }
}

}  // namespace
}  // namespace vicinal::testing

// SPDX-License-Identifier: Apache-2.0
// Requests for some nodes allocate nothing once one as large was there: operator new and the device's memory are
// counted while they run again.
#include "tests/engine/counting_new.h"
#include "tests/engine/plan/plan_testing.h"
#include "tests/engine/plan/receptive_field/receptive_field_testing.h"

namespace vicinal::testing {
namespace {

TEST(ReceptiveFieldAllocations, NoneOnceWarm) {
  constexpr int64_t kNodes = 3000, kCols = 40;
  std::mt19937 random(3);
  const auto graph = PrepareEdges(RandomEdges(kNodes, 12000, true, random), OrderKind::kRcm);
  const std::vector<double> x = RandomFeatures(kNodes, kCols, random);
  ModelMaker maker(kCols);
  AdjacencySpec gcn;
  gcn.loops = SelfLoops::kAddRemaining;
  gcn.weighting = EdgeWeighting::kGcnSent;
  ValueId v = maker.Attention(maker.Linear(0, 32, false), 4, true);
  v = maker.Sum(maker.Linear(maker.Propagate(v, Reduce::kMax), 16, true), maker.Linear(v, 16, false));
  v = maker.Propagate(maker.Linear(maker.Concat({v, maker.Activate(v, ActivationKind::kElu)}), 7, true), Reduce::kSum,
                      gcn);
  const auto model = maker.Done(v);
  auto& bench = ThePlanBench();
  TestAccount account;
  ReceptiveFieldWorkspace workspace(bench.device.get(), account.purpose());
  std::vector<std::vector<int64_t>> requests = {{}, {17}, {2999, 5, 5}};
  for (int i = 0; i < 200; ++i) requests[0].push_back(static_cast<int64_t>(random() % kNodes));
  for (const bool sparse : {false, true}) {
    const auto features = UploadFeatures(x, kCols, sparse, *graph);
    const auto plan = Plan::Build(RequestFor(model, graph, *features), bench.registry, *bench.device);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const StopCheck stop = [] { return OkStatus(); };
    const auto run = [&](const std::vector<int64_t>& ids) {
      const auto found =
          workspace.finder.Find((*plan)->field(), ids, graph->parts().permutation, ReceptiveFieldFinder::kNoLimit, 2);
      return found.ok() && *found &&
             (*plan)
                 ->RunReceptiveField(*bench.context, *features, nullptr, &workspace, stop, StatsSink::Null(),
                                     Clock::Real())
                 .ok();
    };
    for (const auto& ids : requests) ASSERT_TRUE(run(ids));
    const int64_t before = allocations.load(), device_before = bench.device->allocated_bytes();
    ASSERT_GT(before, 0);
    for (const auto& ids : requests) ASSERT_TRUE(run(ids));
    EXPECT_EQ(allocations.load() - before, 0) << (sparse ? "sparse" : "dense");
    EXPECT_EQ(bench.device->allocated_bytes(), device_before);
  }
}

}  // namespace
}  // namespace vicinal::testing

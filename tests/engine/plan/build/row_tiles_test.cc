// SPDX-License-Identifier: Apache-2.0
// Plans in tiles of rows: which steps are grouped; the same bits as whole plans, for every kind of layer, every kernel
// forced in turn, over the full graph and over receptive fields; the bytes that they are admitted with and hold.
#include "engine/plan/build/row_tiles.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/plan/rewrite/rewrite.h"
#include "tests/engine/plan/plan_testing.h"
#include "tests/engine/plan/receptive_field/receptive_field_models.h"
#include "tests/engine/plan/receptive_field/receptive_field_testing.h"

namespace vicinal::testing {
namespace {

using internal::FindTiledNodes;
using internal::TiledNodes;
using internal::TileRows;

// Admits everything but the whole plan, which is asked for after rewriting and packing.
class RefusesTheWhole {
 public:
  PlanAdmission admission() {
    return [this](int64_t bytes) -> Status {
      asked_.push_back(bytes);
      return asked_.size() == 3
                 ? ResourceExhausted("BUDGET_FULL", "no memory for the whole", std::chrono::milliseconds(1))
                 : OkStatus();
    };
  }
  const std::vector<int64_t>& asked() const { return asked_; }

 private:
  std::vector<int64_t> asked_;
};

// Null if tiles save nothing in the plan of `request`.
std::shared_ptr<Plan> BuildInTiles(const PlanRequest& request) {
  RefusesTheWhole refuses;
  const auto plan = Plan::Build(request, ThePlanBench().registry, *ThePlanBench().device, refuses.admission());
  if (refuses.asked().size() == 3) {
    EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
    return nullptr;
  }
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : nullptr;
}

std::vector<ForcedKernels> EveryKernel() {
  std::vector<ForcedKernels> all = {{}};
  ThePlanBench().registry.ForEachOperation([&](const auto& operation) {
    for (const auto& kernel : operation.kernels()) {
      all.push_back({{std::string(operation.operation()), std::string(kernel->kernel().name())}});
    }
  });
  return all;
}

void ExpectFieldsGiveTheSameBits(Plan& plan, const PreparedGraph& graph, const FeatureMatrix& features,
                                 const std::vector<float>& expected, const std::string& what) {
  TestAccount account;
  ReceptiveFieldWorkspace workspace{ThePlanBench().device.get(), account.purpose()};
  const Permutation& permutation = graph.parts().permutation;
  std::mt19937 random(3);
  for (const size_t count : {size_t{1}, size_t{9}, size_t{200}}) {
    std::vector<int64_t> ids;
    while (ids.size() < count) ids.push_back(static_cast<int64_t>(random() % graph.num_nodes()));
    const auto found = workspace.finder.Find(plan.field(), ids, permutation, ReceptiveFieldFinder::kNoLimit, 2);
    ASSERT_TRUE(found.ok() && *found) << what;
    const auto rows = plan.RunReceptiveField(*ThePlanBench().context, features, nullptr, &workspace, nullptr,
                                             StatsSink::Null(), Clock::Real());
    ASSERT_TRUE(rows.ok()) << what << rows.status();
    for (const int64_t id : ids) {
      const float* got = rows->row(workspace.finder.RowOf(permutation.ToNew(static_cast<NodeId>(id))));
      ASSERT_EQ(0, std::memcmp(got, expected.data() + id * rows->cols, rows->cols * sizeof(float)))
          << what << ", " << count << " nodes, node " << id;
    }
  }
}

TEST(RowTiles, EveryLayerGivesTheBitsOfTheWholePlan) {
  constexpr int64_t kNodes = 700, kCols = 24;
  static_assert(kNodes % 64 != 0, "the last block is shorter");
  std::map<std::string, int> in_tiles;
  for (size_t at = 0; at < ReceptiveFieldModels().size(); ++at) {
    const ReceptiveFieldModel& test = ReceptiveFieldModels()[at];
    ModelMaker maker(kCols, static_cast<uint32_t>(at) + 1);
    const auto model = maker.Done(test.layers(maker));
    std::mt19937 random(static_cast<uint32_t>(at) + 7);
    const EdgeList edges = RandomEdges(kNodes, 4 * kNodes, test.weighted, random);
    const std::vector<double> x = RandomFeatures(kNodes, kCols, random);
    for (const OrderKind order : {OrderKind::kNone, OrderKind::kRcm}) {
      const auto graph = PrepareEdges(edges, order);
      for (const bool sparse : {false, true}) {
        const auto features = UploadFeatures(x, kCols, sparse, *graph);
        for (const ForcedKernels& forced : order == OrderKind::kNone ? EveryKernel() : std::vector<ForcedKernels>{{}}) {
          const PlanRequest request = RequestFor(model, graph, *features, forced);
          const auto whole = Plan::Build(request, ThePlanBench().registry, *ThePlanBench().device);
          if (!whole.ok()) continue;  // the kernel cannot be forced; plan_test.cc knows which
          const std::shared_ptr<Plan> tiled = BuildInTiles(request);
          if (tiled == nullptr) continue;
          const std::string what = absl::StrCat(test.name, sparse ? ", sparse, " : ", dense, ",
                                                forced.empty() ? "" : forced.begin()->second);
          ++in_tiles[test.name];
          EXPECT_LT(tiled->scratch_bytes(), (*whole)->scratch_bytes()) << what;
          EXPECT_EQ(tiled->reduction_order(), (*whole)->reduction_order()) << what;
          const std::vector<float> expected = RunPlan(**whole, *features, *graph, false);
          EXPECT_EQ(RunPlan(*tiled, *features, *graph, false), expected) << what;
          ExpectFieldsGiveTheSameBits(*tiled, *graph, *features, expected, what);
          EXPECT_EQ(RunPlan(*tiled, *features, *graph, false), expected) << what << ", after fields";
        }
      }
    }
  }
  EXPECT_GE(in_tiles.size(), 5u) << "models that have something to store in tiles";
}

TEST(RowTiles, RandomModelsGiveTheBitsOfTheWholePlan) {
  constexpr int64_t kNodes = 300, kCols = 7;
  int in_tiles = 0;
  for (uint32_t seed = 0; seed < 120; ++seed) {
    std::mt19937 random(seed);
    const bool weighted = seed % 2 == 0;
    const auto model = AnyModel(kCols, weighted, /*pooled=*/false, seed);
    const auto graph = PrepareEdges(RandomEdges(kNodes, 3 * kNodes, weighted, random), OrderKind::kRcm);
    const auto features = UploadFeatures(RandomFeatures(kNodes, kCols, random), kCols, seed % 3 == 0, *graph);
    const PlanRequest request = RequestFor(model, graph, *features);
    const std::shared_ptr<Plan> tiled = BuildInTiles(request);
    if (tiled == nullptr) continue;
    ++in_tiles;
    const auto whole = Plan::Build(request, ThePlanBench().registry, *ThePlanBench().device);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(RunPlan(*tiled, *features, *graph, false), RunPlan(**whole, *features, *graph, false)) << "seed " << seed;
  }
  EXPECT_GE(in_tiles, 20);
}

class RowTilesOfMlp : public ::testing::Test {
 protected:
  static constexpr int64_t kNodes = 4000, kCols = 8;

  RowTilesOfMlp() {
    ModelMaker maker(kCols);
    ValueId x = 0;
    for (int layer = 0; layer < 2; ++layer) {
      x = maker.Propagate(x, Reduce::kMax);
      for (int i = 0; i < 3; ++i) x = maker.Activate(maker.Linear(x, 96, true), ActivationKind::kRelu);
      x = maker.Linear(x, 8, true);
    }
    model_ = maker.Done(x);
    std::mt19937 random(1);
    graph_ = PrepareEdges(RandomEdges(kNodes, 3 * kNodes, false, random), OrderKind::kNone);
    features_ = UploadFeatures(RandomFeatures(kNodes, kCols, random), kCols, false, *graph_);
  }

  std::shared_ptr<const Model> model_;
  std::shared_ptr<const PreparedGraph> graph_;
  std::shared_ptr<const FeatureMatrix> features_;
};

TEST_F(RowTilesOfMlp, HoldsWhatWasAdmitted) {
  Device& device = *ThePlanBench().device;
  const PlanRequest request = RequestFor(model_, graph_, *features_);
  RefusesTheWhole refuses;
  const int64_t held = device.allocated_bytes();
  const auto plan = Plan::Build(request, ThePlanBench().registry, device, refuses.admission());
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(refuses.asked().size(), 4u);
  EXPECT_EQ(refuses.asked()[3], device.allocated_bytes() - held + (*plan)->step_bytes());
  EXPECT_EQ((*plan)->scratch_bytes(), (*plan)->tiled_scratch_bytes());
  EXPECT_LT(4 * (*plan)->tiled_scratch_bytes(), (*plan)->whole_scratch_bytes());
  const auto whole = Plan::Build(request, ThePlanBench().registry, device);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ((*whole)->scratch_bytes(), (*plan)->whole_scratch_bytes());
  EXPECT_EQ((*whole)->tiled_scratch_bytes(), (*plan)->tiled_scratch_bytes());
  EXPECT_EQ(RunPlan(**plan, *features_, *graph_, false), RunPlan(**whole, *features_, *graph_, false));
}

TEST_F(RowTilesOfMlp, CountsEachStepOnceARun) {
  const std::shared_ptr<Plan> plan = BuildInTiles(RequestFor(model_, graph_, *features_));
  ASSERT_NE(plan, nullptr);
  RunPlan(*plan, *features_, *graph_, false);
  RunPlan(*plan, *features_, *graph_, false);
  for (const PlanStepInfo& step : plan->Steps()) {
    EXPECT_EQ(step.run_count, 2) << step.description;
    EXPECT_GT(step.total_seconds, 0.0) << step.description;
  }
  const std::vector<std::string> decisions = plan->Decisions();
  EXPECT_TRUE(std::any_of(decisions.begin(), decisions.end(), [](const std::string& decision) {
    return decision.find("in tiles of 256 rows") != std::string::npos;
  }));
}

TEST_F(RowTilesOfMlp, WhatDoesNotFitInTilesEitherIsRefused) {
  std::vector<int64_t> asked;
  const auto admit = [&asked](int64_t bytes) -> Status {
    asked.push_back(bytes);
    if (asked.size() < 3) return OkStatus();
    return ResourceExhausted("BUDGET_FULL", "no memory for the " + std::to_string(asked.size()) + "th",
                             std::chrono::milliseconds(1));
  };
  const int64_t held = ThePlanBench().device->allocated_bytes();
  const auto plan =
      Plan::Build(RequestFor(model_, graph_, *features_), ThePlanBench().registry, *ThePlanBench().device, admit);
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(plan.status().message(), "no memory for the 4th");
  ASSERT_EQ(asked.size(), 4u);
  EXPECT_LT(asked[3], asked[2]);
  EXPECT_EQ(ThePlanBench().device->allocated_bytes(), held);
}

TEST_F(RowTilesOfMlp, OtherRefusalsEndTheBuild) {
  const auto cancelled = [](int64_t) { return absl::CancelledError("enough"); };
  const auto plan =
      Plan::Build(RequestFor(model_, graph_, *features_), ThePlanBench().registry, *ThePlanBench().device, cancelled);
  EXPECT_EQ(plan.status().code(), StatusCode::kCancelled);
}

internal::Program Lowered(const Model& model) {
  return internal::LowerModel(model, model.FindOutput("logits")->value, /*sparse_input=*/false);
}

TEST(FindTiledNodes, AGroupEndsWhereOneOfItsValuesIsGathered) {
  ModelMaker maker(4);
  const ValueId hidden = maker.Linear(maker.Propagate(0, Reduce::kSum), 5, true);            // nodes 0, 1
  const ValueId out = maker.Linear(maker.Linear(hidden, 6, true), 7, true);                  // 2, 3
  const auto model = maker.Done(maker.Linear(maker.Propagate(out, Reduce::kMax), 3, true));  // 4, 5
  const std::vector<TiledNodes> groups = FindTiledNodes(Lowered(*model), [](int) { return true; });
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].first, 0);
  EXPECT_EQ(groups[0].last, 3);
  EXPECT_EQ(groups[0].stored.size(), 3u) << "all but what is gathered";
  EXPECT_EQ(groups[1].first, 4);
  EXPECT_EQ(groups[1].last, 5);
  EXPECT_EQ(groups[1].stored.size(), 1u) << "all but the output";
}

TEST(FindTiledNodes, WhatCannotBeCutStandsAlone) {
  ModelMaker maker(4);
  const ValueId hidden = maker.Linear(maker.Linear(maker.Propagate(0, Reduce::kSum, {}, 1.5), 5, true), 5, true);
  const auto model = maker.Done(maker.Linear(hidden, 3, true));
  const std::vector<TiledNodes> self_terms = FindTiledNodes(Lowered(*model), [](int) { return true; });
  ASSERT_EQ(self_terms.size(), 1u);
  EXPECT_EQ(self_terms[0].first, 1) << "the row itself is read among the sources";
  EXPECT_EQ(self_terms[0].last, 3);
  const std::vector<TiledNodes> refused = FindTiledNodes(Lowered(*model), [](int node) { return node != 2; });
  EXPECT_TRUE(refused.empty()) << "single nodes have nothing between them";
}

TEST(TileRows, AreASixteenth) {
  EXPECT_EQ(TileRows(1), 64);
  EXPECT_EQ(TileRows(1024), 64);
  EXPECT_EQ(TileRows(1025), 128);
  EXPECT_EQ(TileRows(4000), 256);
  EXPECT_EQ(TileRows(100'000'000), 16384);
}

}  // namespace
}  // namespace vicinal::testing

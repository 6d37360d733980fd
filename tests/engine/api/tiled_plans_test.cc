// SPDX-License-Identifier: Apache-2.0
// A pass whose plan does not fit the memory budget runs in tiles of rows, through the engine's door: the same bits, and
// Explain tells both sizes before anything runs.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/engine/api/engine_testing.h"
#include "tests/engine/model/safetensors_builder.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kNodes = 4000, kEdges = 12000, kFeatures = 8, kHidden = 512;

class TiledPlansTest : public ::testing::Test {
 protected:
  // An engine with a graph and a model whose MLP is much wider than its input and its output.
  static std::unique_ptr<Engine> World(int64_t budget) {
    EngineOptions options;
    options.memory_budget_bytes = budget;
    options.tuning_budget = Nanoseconds{0};  // it would make new plans meanwhile
    auto engine = MakeEngine(options);
    std::mt19937 random(1);
    GraphSource graph;
    graph.name = "g";
    graph.node_count = kNodes;
    std::vector<int64_t> ends(2 * kEdges);
    for (int64_t& end : ends) end = static_cast<int64_t>(random() % kNodes);
    graph.edge_index = Ints(ends, {2, kEdges});
    std::vector<float> x(kNodes * kFeatures);
    for (float& value : x) value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 500.0f;
    graph.x = Floats(x, {kNodes, kFeatures});
    graph.order = OrderKind::kDegree;
    EXPECT_TRUE(engine->PutGraph(std::move(graph)).ok());
    const auto ready = AwaitGraph(*engine, "g");
    EXPECT_TRUE(ready.ok() && ready->state == GraphState::kReady);
    ModelSource model;
    model.name = "m";
    model.architecture_json = R"({"format": "vicinal.model/1", "in_channels": 8, "layers": [
      {"name": "conv", "type": "SAGEConv", "args": {"out_channels": 8, "aggr": "max", "root_weight": false, "bias": false}},
      {"name": "wide", "type": "Linear", "args": {"out_channels": 512, "bias": false}}, {"name": "a", "type": "ReLU"},
      {"name": "same", "type": "Linear", "args": {"out_channels": 512, "bias": false}}, {"name": "b", "type": "ReLU"},
      {"name": "out", "type": "Linear", "args": {"out_channels": 2, "bias": false}}]})";
    model.weights_file = SafetensorsBuilder()
                             .AddRamp("conv.lin_l.weight", {kFeatures, kFeatures})
                             .AddRamp("wide.weight", {kHidden, kFeatures})
                             .AddRamp("same.weight", {kHidden, kHidden})
                             .AddRamp("out.weight", {2, kHidden})
                             .Build();
    const auto put = engine->PutModel(std::move(model), {});
    EXPECT_TRUE(put.ok()) << put.status();
    return engine;
  }
};

TEST_F(TiledPlansTest, APlanThatDoesNotFitRunsInTilesWithTheSameBits) {
  const auto roomy = World(0);
  const auto whole = roomy->Explain(AllNodes("g", "m"));
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->scratch_bytes, whole->whole_scratch_bytes);
  ASSERT_GE(whole->whole_scratch_bytes, 2 * kNodes * kHidden * 4) << "two values of the MLP live together";
  ASSERT_LT(4 * whole->tiled_scratch_bytes, whole->whole_scratch_bytes);
  const auto narrow = World(whole->whole_scratch_bytes);  // graph and model take some of it
  const auto tiled = narrow->Explain(AllNodes("g", "m"));
  ASSERT_TRUE(tiled.ok()) << tiled.status();
  EXPECT_EQ(tiled->scratch_bytes, whole->tiled_scratch_bytes);
  EXPECT_EQ(tiled->whole_scratch_bytes, whole->whole_scratch_bytes);
  const auto expected = Infer(*roomy, AllNodes("g", "m")), got = Infer(*narrow, AllNodes("g", "m"));
  ASSERT_TRUE(expected.ok() && got.ok()) << got.status();
  EXPECT_EQ(got->values, expected->values);
  EXPECT_EQ(got->served_by.numerics_revision, expected->served_by.numerics_revision);
  InferenceRequest some = AllNodes("g", "m");
  some.nodes = {false, {17, 3999, 17}};
  some.options.receptive_field = ReceptiveField::kAlways;
  const auto few = Infer(*narrow, some);
  ASSERT_TRUE(few.ok()) << few.status();
  for (size_t i = 0; i < 3; ++i) {
    const int64_t node = some.nodes.ids[i];
    EXPECT_EQ(few->values[2 * i], expected->values[static_cast<size_t>(2 * node)]);
    EXPECT_EQ(few->values[2 * i + 1], expected->values[static_cast<size_t>(2 * node + 1)]);
  }
}

// The rows of "b" are as wide as the scratch: the answer is half as large as the whole plan.
TEST_F(TiledPlansTest, APlanLeavesRoomForItsAnswer) {
  InferenceRequest all = AllNodes("g", "m");
  all.options.output = "b";
  InferenceRequest few = all;
  few.nodes = {false, {17, 3999}};
  constexpr int64_t kAnswer = kNodes * kHidden * 4;
  const auto roomy = World(0);
  const int64_t other_plan = roomy->memory().Snapshot().plans;  // of logits, made when the model came
  const auto expected = Infer(*roomy, all);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto whole = roomy->Explain(few);
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(whole->scratch_bytes, whole->whole_scratch_bytes);
  const int64_t saved = whole->whole_scratch_bytes - whole->tiled_scratch_bytes;
  ASSERT_GT(saved, kAnswer / 2);
  const MemoryUse use = roomy->memory().Snapshot();
  const int64_t held = use.total() - use.requests - other_plan;  // the plan and what stays, without the answer
  for (const bool few_first : {false, true}) {
    const auto narrow = World(held + kAnswer / 2);
    if (few_first) {
      ASSERT_TRUE(Infer(*narrow, few).ok());
      const auto kept = narrow->Explain(few);
      ASSERT_TRUE(kept.ok()) << kept.status();
      EXPECT_EQ(kept->scratch_bytes, whole->whole_scratch_bytes) << "it is large enough for few nodes";
    }
    const auto got = Infer(*narrow, all);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->values, expected->values);
    const auto tiled = narrow->Explain(few);
    ASSERT_TRUE(tiled.ok()) << tiled.status();
    EXPECT_EQ(tiled->scratch_bytes, whole->tiled_scratch_bytes);
    EXPECT_TRUE(Infer(*narrow, few).ok());
  }
}

TEST_F(TiledPlansTest, ARefusalPromisesNothingWhereOnlyThePlanIsInTheWay) {
  InferenceRequest all = AllNodes("g", "m");
  all.options.output = "b";
  InferenceRequest few = all;
  few.nodes = {false, {17}};
  constexpr int64_t kAnswer = kNodes * kHidden * 4;
  const auto roomy = World(0);
  const int64_t other_plan = roomy->memory().Snapshot().plans;  // of logits, made when the model came
  const auto whole = roomy->Explain(few);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const int64_t least =
      roomy->memory().Snapshot().total() - other_plan - whole->whole_scratch_bytes + whole->tiled_scratch_bytes;
  const auto narrow = World(least + kAnswer / 2);
  ASSERT_TRUE(Infer(*narrow, few).ok());
  const MemoryUse before = narrow->memory().Snapshot();
  for (int i = 0; i < 2; ++i) {
    const auto got = Infer(*narrow, all);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.status().code(), StatusCode::kFailedPrecondition) << got.status();
    EXPECT_FALSE(DetailOf(got.status())->retry_after.has_value()) << got.status();
    EXPECT_EQ(narrow->memory().Snapshot().plans, before.plans) << "the plan for few nodes stays";
  }
}

}  // namespace
}  // namespace vicinal::testing

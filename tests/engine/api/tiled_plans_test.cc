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

}  // namespace
}  // namespace vicinal::testing

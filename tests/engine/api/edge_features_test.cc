// SPDX-License-Identifier: Apache-2.0
// Features of edges at the engine's door: a graph without them, or with another number, is refused with advice; models
// that read none do not mind them; what describes graphs and models tells of them.
#include <string>

#include "engine/base/error.h"
#include "tests/engine/api/small_world.h"

namespace vicinal::testing {
namespace {

constexpr char kSmallGine[] =
    R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [{"name": "c", "type": "GINEConv",
    "args": {"edge_dim": 2, "nn": [{"type": "Linear", "args": {"out_channels": 2}}]}}]})";

class EdgeFeaturesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    PutSmallWorld(*engine_);
    ModelSource gine;
    gine.name = "gine";
    gine.architecture_json = kSmallGine;
    gine.weights_file = SafetensorsBuilder()
                            .AddRamp("c.lin.weight", {3, 2})
                            .AddRamp("c.lin.bias", {3})
                            .AddRamp("c.nn.0.weight", {2, 3})
                            .AddRamp("c.nn.0.bias", {2})
                            .Build();
    const auto model = engine_->PutModel(std::move(gine), {});
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->edge_feature_width, 2);
  }
  GraphResource Put(const std::string& name, int64_t width) {
    GraphSource source = SmallGraph(name);
    source.edge_attr = Floats(std::vector<float>(6 * width, 0.5f), {6, width});
    EXPECT_TRUE(engine_->PutGraph(std::move(source)).ok());
    const auto graph = AwaitGraph(*engine_, name);
    EXPECT_TRUE(graph.ok() && graph->serving) << graph.status();
    return *graph;
  }
  void ExpectRefused(const std::string& graph, const std::string& reason) {
    const auto answer = Infer(*engine_, AllNodes(graph, "gine"));
    EXPECT_EQ(answer.status().code(), StatusCode::kFailedPrecondition);
    ASSERT_TRUE(DetailOf(answer.status()).has_value()) << answer.status();
    EXPECT_EQ(DetailOf(answer.status())->reason, reason);
  }

  std::unique_ptr<Engine> engine_ = MakeEngine();
};

TEST_F(EdgeFeaturesTest, AModelNeedsThoseThatItReads) {
  EXPECT_EQ(engine_->GetGraph("g")->serving->edge_feature_width, 0);
  ExpectRefused("g", "EDGE_ATTR_MISSING");
  EXPECT_EQ(Put("three", 3).serving->edge_feature_width, 3);
  ExpectRefused("three", "EDGE_ATTR_WIDTH");
  const GraphResource two = Put("two", 2);
  EXPECT_EQ(two.serving->edge_feature_width, 2);
  EXPECT_GE(two.serving->size_bytes, engine_->GetGraph("g")->serving->size_bytes + 6 * 2 * 4);
  const auto answer = Infer(*engine_, AllNodes("two", "gine"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->rows, kSmallNodes);
}

TEST_F(EdgeFeaturesTest, OtherModelsDoNotMindThem) {
  Put("two", 2);
  const auto with = Infer(*engine_, AllNodes("two", "m")), without = Infer(*engine_, AllNodes("g", "m"));
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ(with->values, without->values);
}

TEST_F(EdgeFeaturesTest, WhatDoesNotFitTheEdgesFails) {
  GraphSource source = SmallGraph("few");
  source.edge_attr = Floats({1, 2, 3, 4, 5}, {5, 1});
  ASSERT_TRUE(engine_->PutGraph(std::move(source)).ok());
  const auto graph = AwaitGraph(*engine_, "few");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->state, GraphState::kFailed);
  EXPECT_EQ(DetailOf(graph->error)->field, "edge_attr");
}

}  // namespace
}  // namespace vicinal::testing

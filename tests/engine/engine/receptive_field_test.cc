// SPDX-License-Identifier: Apache-2.0
// Receptive fields through the engine's door: what a request may say, what it hears, features that come with it, and
// the memory that stays.
#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "tests/engine/engine/small_world.h"

namespace vicinal::testing {
namespace {

InferenceRequest Nodes(std::vector<int64_t> ids, ReceptiveField receptive_field, const std::string& graph = "g",
                       const std::string& model = "m") {
  InferenceRequest request = AllNodes(graph, model);
  request.nodes = {false, std::move(ids)};
  request.receptive_field = receptive_field;
  return request;
}

class EngineFields : public ::testing::Test {
 protected:
  EngineFields() : engine_(MakeEngine()) { PutSmallWorld(*engine_); }

  // The same bits over the field and over the full graph.
  InferenceResult ExpectSame(InferenceRequest request) {
    request.receptive_field = ReceptiveField::kNever;
    const auto full = Infer(*engine_, request);
    EXPECT_TRUE(full.ok()) << full.status();
    EXPECT_FALSE(full->receptive_field);
    EXPECT_EQ(full->computed_nodes, kSmallNodes);
    request.receptive_field = ReceptiveField::kAlways;
    const auto field = Infer(*engine_, request);
    EXPECT_TRUE(field.ok()) << field.status();
    if (!field.ok() || !full.ok()) return {};
    EXPECT_TRUE(field->receptive_field);
    EXPECT_EQ(field->values, full->values);
    EXPECT_EQ(field->rows, full->rows);
    return *field;
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineFields, TellsWhatWasComputed) {
  // In-edges: 0->1->2->3, 1->... as SmallEnds has them; node 5 is alone.
  EXPECT_EQ(ExpectSame(Nodes({5}, ReceptiveField::kAlways)).computed_nodes, 1);
  EXPECT_EQ(ExpectSame(Nodes({5, 5, 5}, ReceptiveField::kAlways)).computed_nodes, 1);
  const InferenceResult some = ExpectSame(Nodes({2, 5, 2}, ReceptiveField::kAlways));
  EXPECT_GT(some.computed_nodes, 2);
  EXPECT_EQ(some.rows, 3);
  ExpectSame(Nodes({5, 4, 3, 2, 1, 0}, ReceptiveField::kAlways));
}

TEST_F(EngineFields, AllNodesAreTheFullGraph) {
  InferenceRequest all = AllNodes("g", "m");
  all.receptive_field = ReceptiveField::kAlways;
  const auto result = Infer(*engine_, all);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->receptive_field);
  EXPECT_EQ(result->computed_nodes, kSmallNodes);
}

TEST_F(EngineFields, FeaturesOfTheRequestAreRead) {
  const HostTensor all = Floats(SmallRows(3.0f), {kSmallNodes, kSmallFeatures});
  const HostTensor rows = Floats({9, -9, 0.5f, 7, 7, 7}, {2, kSmallFeatures});
  const InferenceResult stored = ExpectSame(Nodes({2}, ReceptiveField::kAlways));
  InferenceRequest request = Nodes({2}, ReceptiveField::kAlways);
  request.features = RequestFeatures{};
  request.features->tensors.dense = all.view();
  EXPECT_NE(ExpectSame(request).values, stored.values);
  request.features->tensors.dense = rows.view();
  request.features->rows = {2, 0};
  EXPECT_NE(ExpectSame(request).values, stored.values);
}

TEST_F(EngineFields, ANormOverTheGraphRefusesAndIsComputedWhole) {
  ModelSource source;
  source.name = "norm";
  source.architecture_json = R"({
    "format": "vicinal.model/1", "in_channels": 3,
    "layers": [
      {"name": "conv1", "type": "GCNConv", "args": {"in_channels": 3, "out_channels": 4}},
      {"name": "norm1", "type": "LayerNorm", "args": {"in_channels": 4, "mode": "graph"}},
      {"name": "conv2", "type": "GCNConv", "args": {"in_channels": 4, "out_channels": 2}}
    ]})";
  source.weights_file = SafetensorsBuilder()
                            .AddRamp("conv1.lin.weight", {4, 3})
                            .AddRamp("conv1.bias", {4})
                            .AddRamp("norm1.weight", {4})
                            .AddRamp("norm1.bias", {4})
                            .AddRamp("conv2.lin.weight", {2, 4})
                            .AddRamp("conv2.bias", {2})
                            .Build();
  const auto model = engine_->PutModel(std::move(source), {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto whole = Infer(*engine_, Nodes({5}, ReceptiveField::kAuto, "g", "norm"));
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_FALSE(whole->receptive_field);
  EXPECT_EQ(whole->computed_nodes, kSmallNodes);
  const auto forced = Infer(*engine_, Nodes({5}, ReceptiveField::kAlways, "g", "norm"));
  EXPECT_EQ(forced.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(forced.status())->reason, "NO_RECEPTIVE_FIELD");
  const auto explained = engine_->Explain(AllNodes("g", "norm"));
  ASSERT_TRUE(explained.ok());
  EXPECT_NE(explained->decisions.back().find("norm1 reads all nodes of the graph"), std::string::npos)
      << explained->decisions.back();
  const auto possible = engine_->Explain(AllNodes("g", "m"));
  EXPECT_NE(possible->decisions.back().find("up to 2 steps away"), std::string::npos) << possible->decisions.back();
}

TEST_F(EngineFields, WhatStaysIsCounted) {
  ASSERT_TRUE(Infer(*engine_, Nodes({2}, ReceptiveField::kNever)).ok());
  const int64_t before = engine_->Memory().requests;
  ASSERT_TRUE(Infer(*engine_, Nodes({2}, ReceptiveField::kAlways)).ok());
  const int64_t after = engine_->Memory().requests;
  EXPECT_GT(after, before);
  ASSERT_TRUE(Infer(*engine_, Nodes({2, 2}, ReceptiveField::kAlways)).ok());
  EXPECT_EQ(engine_->Memory().requests, after);
}

TEST(EngineFieldsAuto, AFewNodesOfALongPathAreComputedAlone) {
  constexpr int64_t kLength = 5000;
  auto engine = MakeEngine();
  std::vector<int64_t> ends(2 * (kLength - 1));
  for (int64_t i = 0; i + 1 < kLength; ++i) ends[i] = i, ends[kLength - 1 + i] = i + 1;
  std::vector<float> rows(kLength * kSmallFeatures);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = 0.25f * static_cast<float>(i % 13);
  GraphSource source;
  source.name = "path";
  source.node_count = kLength;
  source.edge_index = Ints(ends, {2, kLength - 1});
  source.x = Floats(rows, {kLength, kSmallFeatures});
  ASSERT_TRUE(engine->PutGraph(std::move(source)).ok());
  ASSERT_EQ(AwaitGraph(*engine, "path")->state, GraphState::kReady);
  ASSERT_TRUE(engine->PutModel(SmallModel("m"), {}).ok());
  const auto all = Infer(*engine, AllNodes("path", "m"));
  ASSERT_TRUE(all.ok()) << all.status();
  const auto few = Infer(*engine, Nodes({4000, 17}, ReceptiveField::kAuto, "path"));
  ASSERT_TRUE(few.ok()) << few.status();
  EXPECT_TRUE(few->receptive_field);
  EXPECT_EQ(few->computed_nodes, 6);  // each with two nodes before it
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(few->values[i], all->values[4000 * 2 + i]);
    EXPECT_EQ(few->values[2 + i], all->values[17 * 2 + i]);
  }
}

}  // namespace
}  // namespace vicinal::testing

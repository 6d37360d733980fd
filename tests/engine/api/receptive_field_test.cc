// SPDX-License-Identifier: Apache-2.0
// Receptive fields through the engine's door: what a request may say, what it hears, features that come with it, and
// the memory that stays.
#include <thread>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "tests/engine/api/small_world.h"

namespace vicinal::testing {
namespace {

InferenceRequest Nodes(std::vector<int64_t> ids, ReceptiveField receptive_field, const std::string& graph = "g",
                       const std::string& model = "m") {
  InferenceRequest request = AllNodes(graph, model);
  request.nodes = {false, std::move(ids)};
  request.options.receptive_field = receptive_field;
  return request;
}

class EngineReceptiveFields : public ::testing::Test {
 protected:
  EngineReceptiveFields() : engine_(MakeEngine()) { PutSmallWorld(*engine_); }

  // The same bits over the field and over the full graph.
  InferenceResult ExpectSame(InferenceRequest request) {
    request.options.receptive_field = ReceptiveField::kNever;
    const auto full = Infer(*engine_, request);
    EXPECT_TRUE(full.ok()) << full.status();
    EXPECT_FALSE(full->receptive_field);
    EXPECT_EQ(full->computed_nodes, kSmallNodes);
    request.options.receptive_field = ReceptiveField::kAlways;
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

TEST_F(EngineReceptiveFields, TellsWhatWasComputed) {
  // In-edges: 0->1->2->3, 1->... as SmallEnds has them; node 5 is alone.
  EXPECT_EQ(ExpectSame(Nodes({5}, ReceptiveField::kAlways)).computed_nodes, 1);
  EXPECT_EQ(ExpectSame(Nodes({5, 5, 5}, ReceptiveField::kAlways)).computed_nodes, 1);
  const InferenceResult some = ExpectSame(Nodes({2, 5, 2}, ReceptiveField::kAlways));
  EXPECT_GT(some.computed_nodes, 2);
  EXPECT_EQ(some.rows, 3);
  ExpectSame(Nodes({5, 4, 3, 2, 1, 0}, ReceptiveField::kAlways));
}

TEST_F(EngineReceptiveFields, AllNodesAreTheFullGraph) {
  InferenceRequest all = AllNodes("g", "m");
  all.options.receptive_field = ReceptiveField::kAlways;
  const auto result = Infer(*engine_, all);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->receptive_field);
  EXPECT_EQ(result->computed_nodes, kSmallNodes);
}

TEST_F(EngineReceptiveFields, FeaturesOfTheRequestAreRead) {
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

TEST_F(EngineReceptiveFields, ANormOverTheGraphRefusesAndIsComputedWhole) {
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

TEST_F(EngineReceptiveFields, WhatStaysIsCounted) {
  ASSERT_TRUE(Infer(*engine_, Nodes({2}, ReceptiveField::kNever)).ok());
  const int64_t before = engine_->memory().Snapshot().receptive_fields;
  ASSERT_TRUE(Infer(*engine_, Nodes({2}, ReceptiveField::kAlways)).ok());
  const int64_t after = engine_->memory().Snapshot().receptive_fields;
  EXPECT_GT(after, before);
  ASSERT_TRUE(Infer(*engine_, Nodes({2, 2}, ReceptiveField::kAlways)).ok());
  EXPECT_EQ(engine_->memory().Snapshot().receptive_fields, after);
}

// The graph `name` is a path of so many nodes.
void PutPath(Engine& engine, const std::string& name, int64_t length) {
  std::vector<int64_t> ends(2 * (length - 1));
  for (int64_t i = 0; i + 1 < length; ++i) ends[i] = i, ends[length - 1 + i] = i + 1;
  std::vector<float> rows(length * kSmallFeatures);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = 0.25f * static_cast<float>(i % 13);
  GraphSource source;
  source.name = name;
  source.node_count = length;
  source.edge_index = Ints(ends, {2, length - 1});
  source.x = Floats(rows, {length, kSmallFeatures});
  source.replace = true;
  ASSERT_TRUE(engine.PutGraph(std::move(source)).ok());
  const auto ready = AwaitGraph(engine, name);
  ASSERT_TRUE(ready.ok() && ready->state == GraphState::kReady) << ready.status();
}

TEST_F(EngineReceptiveFields, TheirRoomGoesWithTheGraphsThatNeedIt) {
  PutPath(*engine_, "long", 5000);
  PutPath(*engine_, "longer", 7000);
  const auto ask = [this](const std::string& graph) {
    const auto answer = Infer(*engine_, Nodes({2}, ReceptiveField::kAlways, graph));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return engine_->memory().Snapshot().receptive_fields;
  };
  EXPECT_GE(ask("long"), 4 * 5000);
  const int64_t all = ask("longer");
  EXPECT_GE(all, 4 * 7000);
  ASSERT_TRUE(engine_->DeleteGraph("long", 0).ok());
  EXPECT_EQ(engine_->memory().Snapshot().receptive_fields, all);
  PutPath(*engine_, "longer", 100);
  while (engine_->memory().Snapshot().receptive_fields != 0)
    std::this_thread::yield();  // right after the graph is READY
  EXPECT_GT(ask("longer"), 0);
  EXPECT_LT(ask("longer"), 4 * 5000);
  for (const char* graph : {"longer", "g"}) ASSERT_TRUE(engine_->DeleteGraph(graph, 0).ok());
  EXPECT_EQ(engine_->memory().Snapshot().receptive_fields, 0);
}

TEST(EngineReceptiveFieldsBudget, TheirMemoryIsEvicted) {
  EngineOptions options;
  options.memory_budget_bytes = 4 << 20;
  auto engine = MakeEngine(options);
  PutSmallWorld(*engine);
  PutPath(*engine, "path", 5000);
  const InferenceRequest request = Nodes({2}, ReceptiveField::kAlways, "path");
  ASSERT_TRUE(Infer(*engine, request).ok());
  const MemoryUse use = engine->memory().Snapshot();
  EXPECT_GE(use.receptive_fields, 4 * 5000);
  const int64_t others = use.graphs + use.features + use.models + use.plans;
  {
    const auto held = engine->memory().Reserve(Account::kRequests, use.budget - others, "all that is left");
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_EQ(engine->memory().Snapshot().requests, use.budget - others);
    EXPECT_EQ(engine->memory().Snapshot().receptive_fields, 0);
    EXPECT_EQ(engine->memory().Snapshot().plans, use.plans) << "a plan costs more to have again";
  }
  ASSERT_TRUE(Infer(*engine, request).ok());
  const auto check = [&](int64_t bytes) { EXPECT_TRUE(engine->memory().Check(bytes, "a test").ok()); };
  check(use.budget - others - use.receptive_fields);
  EXPECT_EQ(engine->memory().Snapshot().receptive_fields, use.receptive_fields) << "so much fits without";
  check(use.budget - others - use.receptive_fields + 1);
  EXPECT_EQ(engine->memory().Snapshot().receptive_fields, 0);
  EXPECT_EQ(engine->memory().Snapshot().plans, use.plans);
  check(use.budget - others + 1);
  EXPECT_LT(engine->memory().Snapshot().plans, use.plans);
  ASSERT_TRUE(Infer(*engine, request).ok());
  EXPECT_EQ(engine->memory().Snapshot().receptive_fields, use.receptive_fields);
}

TEST(EngineReceptiveFieldsAuto, AFewNodesOfALongPathAreComputedAlone) {
  auto engine = MakeEngine();
  PutPath(*engine, "path", 5000);
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

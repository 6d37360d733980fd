// SPDX-License-Identifier: Apache-2.0
// Plans are made before requests need them. What a request would have to build shows in the memory budget: a request
// that finds everything leaves the bytes of plans and graphs as they are.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/engine/api/small_world.h"

namespace vicinal::testing {
namespace {

class PlansAheadTest : public ::testing::Test {
 protected:
  void PutGraph(GraphSource source) {
    const std::string name = source.name;
    ASSERT_TRUE(engine_->PutGraph(std::move(source)).ok());
    const auto ready = AwaitGraph(*engine_, name);
    ASSERT_TRUE(ready.ok() && ready->state == GraphState::kReady) << ready.status();
  }
  // Graphs are prepared one after the other: what followed the last one's publication is over.
  void AwaitQuiet() {
    GraphSource last = SmallGraph("last");
    last.x.reset();
    PutGraph(std::move(last));
  }
  void PutModel(ModelSource source) { ASSERT_TRUE(engine_->PutModel(std::move(source), {}).ok()); }

  int64_t plan_bytes() { return engine_->memory().Snapshot().plans; }
  void ExpectNothingLeftToBuild(const InferenceRequest& request) {
    const MemoryUse before = engine_->memory().Snapshot();
    EXPECT_GT(before.plans, 0);
    const auto answer = Infer(*engine_, request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(engine_->memory().Snapshot().plans, before.plans);
    EXPECT_EQ(engine_->memory().Snapshot().graphs, before.graphs) << "adjacencies belong to the graph";
  }

  std::unique_ptr<Engine> engine_ = MakeEngine();
};

InferenceRequest Narrow() {
  InferenceRequest request = AllNodes("g", "m");
  request.options.output = "conv1";
  request.options.precision = Storage::kBfloat16;
  return request;
}

TEST_F(PlansAheadTest, AGraphBringsThoseOfTheModelsThatFitIt) {
  PutModel(SmallModel("m"));
  EXPECT_EQ(plan_bytes(), 0);
  PutGraph(SmallGraph("g"));
  ExpectNothingLeftToBuild(AllNodes("g", "m"));
}

TEST_F(PlansAheadTest, FeaturesThatComeLaterBringThemToo) {
  PutModel(SmallModel("m"));
  GraphSource bare = SmallGraph("g");
  bare.x.reset();
  PutGraph(std::move(bare));
  EXPECT_EQ(plan_bytes(), 0) << "nothing can be asked yet";
  const HostTensor x = Floats(SmallRows(), {kSmallNodes, kSmallFeatures});
  FeatureTensors tensors;
  tensors.dense = x.view();
  ASSERT_TRUE(engine_->PutFeatures("g", "default", tensors, false, 0, {}).ok());
  ExpectNothingLeftToBuild(AllNodes("g", "m"));
}

TEST_F(PlansAheadTest, AModelBringsThoseOfTheGraphsItFits) {
  PutGraph(SmallGraph("g"));
  EXPECT_EQ(plan_bytes(), 0);
  PutModel(SmallModel("m"));
  ExpectNothingLeftToBuild(AllNodes("g", "m"));
}

TEST_F(PlansAheadTest, ModelsOfOtherWidthsAndOfGraphsBringNone) {
  PutGraph(SmallGraph("g"));
  ModelSource pooled;
  pooled.name = "pooled";
  pooled.architecture_json = kSmallPooled;
  pooled.weights_file = SmallPooledWeights();
  PutModel(std::move(pooled));
  EXPECT_EQ(plan_bytes(), 0);
}

TEST_F(PlansAheadTest, WhatIsInUseIsThereForTheNextVersion) {
  PutSmallWorld(*engine_);
  ASSERT_TRUE(Infer(*engine_, Narrow()).ok());
  GraphSource graph = SmallGraph("g", 0.75f);
  graph.replace = true;
  PutGraph(std::move(graph));
  AwaitQuiet();
  ExpectNothingLeftToBuild(Narrow());
  ModelSource model = SmallModel("m", 0.25f);
  model.replace = true;
  PutModel(std::move(model));
  ExpectNothingLeftToBuild(Narrow());
}

// The plan for a set that will follow comes with the graph, as it is used; else that of a request without options
// comes with the set.
TEST_F(PlansAheadTest, EdgeFeatureSetsThatFollowTheirGraphFindTheirs) {
  const auto put_graph = [this] {
    GraphSource graph = SmallGraph("g");
    graph.keep_edge_order = true;
    graph.replace = true;
    PutGraph(std::move(graph));
  };
  const auto put_set = [this](const std::string& name) {
    const HostTensor rows = Floats(std::vector<float>(12, 0.5f), {6, 2});
    ASSERT_TRUE(engine_->PutEdgeFeatures("g", name, {rows.view(), ""}, false, 0).ok());
  };
  ModelSource gine;
  gine.name = "gine";
  gine.architecture_json = kSmallGine;
  gine.weights_file = SmallGineWeights();
  PutModel(std::move(gine));
  put_graph();
  EXPECT_EQ(plan_bytes(), 0) << "nothing can be asked yet";
  put_set("daily");
  InferenceRequest plain = AllNodes("g", "gine");
  plain.edge_feature_set = "daily";
  ExpectNothingLeftToBuild(plain);
  InferenceRequest narrow = plain;
  narrow.options.precision = Storage::kBfloat16;
  ASSERT_TRUE(Infer(*engine_, narrow).ok());
  put_graph();
  AwaitQuiet();
  put_set("daily");
  ExpectNothingLeftToBuild(narrow);
}

TEST_F(PlansAheadTest, AtMostSomeAreMade) {
  for (int i = 0; i < 12; ++i) PutModel(SmallModel("m" + std::to_string(i)));
  PutGraph(SmallGraph("g"));
  const int64_t ahead = plan_bytes();
  ASSERT_TRUE(Infer(*engine_, AllNodes("g", "m9")).ok());  // the last by name
  const int64_t one = plan_bytes() - ahead;
  EXPECT_GT(one, 0);
  EXPECT_EQ(ahead, 8 * one);
}

TEST_F(PlansAheadTest, TuningPutsNewOnesInTheirPlace) {
  PutSmallWorld(*engine_);
  const auto before = Infer(*engine_, AllNodes("g", "m"));
  TuneGraphRequest request;
  request.graph = "g";
  request.widths = {2, 3, 4};
  request.force.emplace();
  request.force->kernel = "tiled_rows";
  const auto tuned = engine_->TuneGraph(request);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  ExpectNothingLeftToBuild(AllNodes("g", "m"));
  const auto explained = engine_->Explain(AllNodes("g", "m"));
  ASSERT_TRUE(explained.ok());
  int64_t tiled = 0;
  for (const auto& step : explained->steps) tiled += step.kernel == "tiled_rows";
  EXPECT_EQ(tiled, 2) << "both layers";
  EXPECT_EQ(Infer(*engine_, AllNodes("g", "m"))->values, before->values);
}

}  // namespace
}  // namespace vicinal::testing

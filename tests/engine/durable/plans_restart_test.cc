// SPDX-License-Identifier: Apache-2.0
// After a start graphs serve, and then their plans are made; those that requests bring from disk have theirs before
// they serve. A request that finds everything leaves the bytes of plans and graphs as they are.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "tests/engine/durable/restart_testing.h"

namespace vicinal {
namespace {

using testing::AllNodes;
using testing::Infer;
using testing::SmallGraph;
using testing::SmallModel;

// Goes on by two seconds with each look.
class HurriedClock final : public Clock {
 public:
  MonotonicTime Now() const override { return MonotonicTime(Nanoseconds(now_ += 2'000'000'000)); }
  WallTime WallNow() const override { return WallTime(); }

 private:
  mutable std::atomic<int64_t> now_{0};
};

constexpr int64_t kBudget = 4 << 20;

class PlansRestartTest : public RestartTest {
 protected:
  void SetUp() override {
    Start();
    for (const char* name : {"g", "h"}) {
      Put(SmallGraph(name));
      AwaitDurable(name);
    }
    for (const char* name : {"m", "n"}) ASSERT_TRUE(engine_->PutModel(SmallModel(name), {}).ok());
    Stop();
  }
  // Returns when the plans of the start are made.
  void StartWith(const EngineOptions& options) {
    const size_t known = lines_.all().size();  // an earlier start of this test has told the same
    auto engine = Engine::Create(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    lines_.Await("plans of the start made", known);
    EXPECT_TRUE(engine_->loaded());
  }
  // "g" is evicted, and comes back.
  void BringBack() {
    const int64_t models = engine_->memory().Snapshot().models;
    EXPECT_TRUE(engine_->memory().Check(kBudget - models, "a test").ok());
    ASSERT_FALSE(engine_->GetGraph("g")->serving->in_memory());
    EXPECT_EQ(plan_bytes(), 0);
    ASSERT_TRUE(engine_->GetTuning("g").ok());
    ASSERT_TRUE(engine_->GetGraph("g")->serving->in_memory());
  }
  int64_t plan_bytes() { return engine_->memory().Snapshot().plans; }
  void ExpectNothingLeftToBuild(const InferenceRequest& request) {
    const MemoryUse before = engine_->memory().Snapshot();
    const auto answer = Infer(*engine_, request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(engine_->memory().Snapshot().plans, before.plans);
    EXPECT_EQ(engine_->memory().Snapshot().graphs, before.graphs) << "adjacencies belong to the graph";
  }
};

TEST_F(PlansRestartTest, AfterAStartThoseOfItsGraphsAndModelsAreMade) {
  StartWith(Options());
  EXPECT_GT(plan_bytes(), 0);
  for (const char* graph : {"g", "h"}) {
    for (const char* model : {"m", "n"}) ExpectNothingLeftToBuild(AllNodes(graph, model));
  }
}

// Of a set with any name: requests may read it.
TEST_F(PlansRestartTest, AfterAStartThoseThatReadEdgeFeatureSetsAreMade) {
  Start();
  GraphSource graph = SmallGraph("edges");
  graph.keep_edge_order = true;
  Put(std::move(graph));
  AwaitDurable("edges");
  ModelSource gine;
  gine.name = "gine";
  gine.architecture_json = testing::kSmallGine;
  gine.weights_file = testing::SmallGineWeights();
  ASSERT_TRUE(engine_->PutModel(std::move(gine), {}).ok());
  const HostTensor rows = testing::Floats(std::vector<float>(12, 0.5f), {6, 2});
  ASSERT_TRUE(engine_->PutEdgeFeatures("edges", "daily", {rows.view(), ""}, false, 0).ok());
  Stop();
  StartWith(Options());
  InferenceRequest request = AllNodes("edges", "gine");
  request.edge_feature_set = "daily";
  ExpectNothingLeftToBuild(request);
}

TEST_F(PlansRestartTest, AGraphThatComesBackBringsThemAgain) {
  EngineOptions options = Options();
  options.memory_budget_bytes = kBudget;
  StartWith(options);
  BringBack();
  EXPECT_GT(plan_bytes(), 0);
  ExpectNothingLeftToBuild(AllNodes("g", "n"));
}

TEST_F(PlansRestartTest, AGraphThatComesBackWaitsForThemABoundedTime) {
  HurriedClock clock;
  EngineOptions options = Options();
  options.memory_budget_bytes = kBudget;
  options.clock = &clock;
  StartWith(options);
  BringBack();
  EXPECT_EQ(plan_bytes(), 0);
  engine_.reset();
}

}  // namespace
}  // namespace vicinal

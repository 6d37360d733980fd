// SPDX-License-Identifier: Apache-2.0
// Graphs that come from disk have their plans before they serve. A request that finds everything leaves the bytes of
// plans and graphs as they are.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

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
  void StartWith(const EngineOptions& options) {
    auto engine = Engine::Create(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    // Until then the loader holds what it has just published, so that nothing can evict it.
    while (!engine_->loaded()) std::this_thread::yield();
  }
  int64_t plan_bytes() { return engine_->memory().Snapshot().plans; }
  void ExpectNothingLeftToBuild(const std::string& graph, const std::string& model) {
    const MemoryUse before = engine_->memory().Snapshot();
    const auto answer = Infer(*engine_, AllNodes(graph, model));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(engine_->memory().Snapshot().plans, before.plans);
    EXPECT_EQ(engine_->memory().Snapshot().graphs, before.graphs) << "adjacencies belong to the graph";
  }
};

TEST_F(PlansRestartTest, AStartMakesThoseOfItsGraphsAndModels) {
  StartWith(Options());
  EXPECT_GT(plan_bytes(), 0);
  for (const char* graph : {"g", "h"}) {
    for (const char* model : {"m", "n"}) ExpectNothingLeftToBuild(graph, model);
  }
}

TEST_F(PlansRestartTest, ForABoundedTime) {
  HurriedClock clock;
  EngineOptions options = Options();
  options.clock = &clock;
  StartWith(options);
  EXPECT_EQ(plan_bytes(), 0);
  EXPECT_TRUE(Infer(*engine_, AllNodes("g", "m")).ok());
  EXPECT_GT(plan_bytes(), 0);
  engine_.reset();
}

TEST_F(PlansRestartTest, AGraphThatComesBackBringsThemAgain) {
  EngineOptions options = Options();
  options.memory_budget_bytes = 4 << 20;
  StartWith(options);
  EXPECT_TRUE(
      engine_->memory().Check(options.memory_budget_bytes - engine_->memory().Snapshot().models, "a test").ok());
  ASSERT_FALSE(engine_->GetGraph("g")->serving->in_memory());
  EXPECT_EQ(plan_bytes(), 0);
  ASSERT_TRUE(engine_->GetTuning("g").ok());  // brings the graph in
  ASSERT_TRUE(engine_->GetGraph("g")->serving->in_memory());
  EXPECT_GT(plan_bytes(), 0);
  ExpectNothingLeftToBuild("g", "n");
}

}  // namespace
}  // namespace vicinal

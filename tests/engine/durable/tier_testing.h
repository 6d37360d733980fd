// SPDX-License-Identifier: Apache-2.0
// What tests of tiers share: a sink that counts loads and evictions, and graphs of one size whose answers differ.
#ifndef VICINAL_TESTS_ENGINE_DURABLE_TIER_TESTING_H_
#define VICINAL_TESTS_ENGINE_DURABLE_TIER_TESTING_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/stats.h"
#include "tests/engine/api/small_world.h"
#include "tests/engine/durable/lines.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::testing {

// Counts loads and evictions.
class CountingStats final : public StatsSink {
 public:
  void StageSeconds(std::string_view, double) override {}
  void PhaseSeconds(std::string_view, double) override {}
  void QueueDepth(int64_t) override {}
  void GraphLoaded(std::string_view outcome, double) override { (outcome == "loaded" ? loads : failures) += 1; }
  void GraphEvicted() override { evictions += 1; }
  void GraphReturned(std::string_view outcome, double) override { (outcome == "loaded" ? returns : failures) += 1; }
  void GraphLeftDevice() override { left_device += 1; }

  std::atomic<int> loads{0}, failures{0}, evictions{0}, returns{0}, left_device{0};
};

inline constexpr int64_t kRingNodes = 600;

// A ring, whose features differ from name to name.
inline GraphSource Ring(const std::string& name) {
  std::vector<int64_t> ends(2 * kRingNodes);
  for (int64_t i = 0; i < kRingNodes; ++i) {
    ends[static_cast<size_t>(i)] = i;
    ends[static_cast<size_t>(kRingNodes + i)] = (i + 1) % kRingNodes;
  }
  std::vector<float> rows;
  for (int64_t i = 0; i < kRingNodes * kSmallFeatures; ++i) {
    rows.push_back(0.125f * static_cast<float>((i + static_cast<int64_t>(name.back()) * 3) % 11));
  }
  GraphSource source;
  source.name = name;
  source.node_count = kRingNodes;
  source.edge_index = Ints(ends, {2, kRingNodes});
  source.x = Floats(rows, {kRingNodes, kSmallFeatures});
  source.feature_count = kSmallFeatures;
  return source;
}

// An engine that a test starts and stops, with a state directory to start it in.
class TierFixture : public ::testing::Test {
 protected:
  // With two threads, no tuning and counted loads; the rest as `options` has it.
  void StartWith(EngineOptions options) {
    engine_.reset();
    logged_before_ = lines_.all().size();
    options.logger = &lines_;
    options.num_threads = 2;
    options.tuning_budget = Nanoseconds(0);
    options.stats = &stats_;
    auto engine = Engine::Create(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  void Stop() {
    EXPECT_TRUE(engine_->Drain(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
    engine_.reset();
  }
  // After a start that has loaded graphs: until then the loaders hold what they have just published or make plans for,
  // so that other graphs leave in its place.
  void AwaitStarted() { lines_.Await("plans of the start made", logged_before_); }
  void PutReady(const std::string& name, bool pinned) {
    GraphSource source = Ring(name);
    source.pinned = pinned;
    const auto put = engine_->PutGraph(std::move(source));
    ASSERT_TRUE(put.ok()) << put.status();
    const auto graph = AwaitGraph(*engine_, name);
    ASSERT_TRUE(graph.ok() && graph->state == GraphState::kReady) << graph.status() << graph->error;
  }
  // Of the model "m".
  std::vector<float> Answers(const std::string& name) {
    const auto result = Infer(*engine_, AllNodes(name, "m"));
    EXPECT_TRUE(result.ok()) << name << ": " << result.status();
    return result.ok() ? result->values : std::vector<float>();
  }

  TemporaryDirectory directory_;
  CountingStats stats_;
  Lines lines_;
  size_t logged_before_ = 0;  // by earlier engines
  std::unique_ptr<Engine> engine_;
};

// Asks for all nodes of `graph` by the model "m", 32 requests at once.
inline void ExpectAnswersToMany(Engine& engine, const std::string& graph, const std::vector<float>& expected) {
  std::vector<std::promise<StatusOr<InferenceResult>>> done(32);
  for (auto& promise : done) {
    const auto keep = [&promise](StatusOr<InferenceResult> result) { promise.set_value(std::move(result)); };
    ASSERT_TRUE(engine.Submit(AllNodes(graph, "m"), keep).ok());
  }
  for (auto& promise : done) {
    const auto result = promise.get_future().get();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->values, expected);
  }
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_DURABLE_TIER_TESTING_H_

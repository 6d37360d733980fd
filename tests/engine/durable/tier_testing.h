// SPDX-License-Identifier: Apache-2.0
// What tests of tiers share: a sink that counts loads and evictions, and graphs of one size whose answers differ.
#ifndef VICINAL_TESTS_ENGINE_DURABLE_TIER_TESTING_H_
#define VICINAL_TESTS_ENGINE_DURABLE_TIER_TESTING_H_

#include <atomic>
#include <cstdint>
#include <future>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/stats.h"
#include "tests/engine/api/small_world.h"

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

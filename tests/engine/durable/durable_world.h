// SPDX-License-Identifier: Apache-2.0
// A durable store on a simulated disk, and other servers on the same directory.
#ifndef VICINAL_TESTS_ENGINE_DURABLE_DURABLE_WORLD_H_
#define VICINAL_TESTS_ENGINE_DURABLE_DURABLE_WORLD_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/durable/durable_store.h"
#include "tests/engine/durable/durable_testing.h"

namespace vicinal::durable {

class CountingStats final : public StatsSink {
 public:
  void StageSeconds(std::string_view, double) override {}
  void PhaseSeconds(std::string_view, double) override {}
  void QueueDepth(int64_t) override {}
  void StateFailure(std::string_view kind) override {
    MutexLock lock(&mutex_);
    ++counts_[std::string(kind)];
  }
  int64_t count(const std::string& kind) const {
    MutexLock lock(&mutex_);
    const auto found = counts_.find(kind);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, int64_t> counts_ VICINAL_GUARDED_BY(mutex_);
};

// A store that writes graphs of two nodes with features.
class World {
 public:
  explicit World(int64_t max_waiting = 1024) : max_waiting_(max_waiting) {}

  int64_t Publish(const std::string& name) {
    const int64_t version = PublishTwoNodes(name, TwoRows(*device_), *device_, &graphs_);
    durable_->GraphPublished(name);
    Flush();
    return version;
  }
  void PutFeatures(const std::string& graph, int64_t version, const std::string& name, bool replace = false) {
    const auto set = graphs_.PutFeatures(graph, name, version, TwoRows(*device_), replace, 0);
    ASSERT_TRUE(set.ok()) << set.status();
    durable_->FeaturesPublished(*set);
    Flush();
  }
  void Flush() { EXPECT_TRUE(durable_->Flush(std::chrono::steady_clock::now() + std::chrono::minutes(1))); }
  void Retry() {
    durable_->Retry();
    Flush();
  }
  // The graph, with its feature sets, as clients see it.
  GraphResource Describe(const std::string& name) {
    GraphResource resource;
    resource.name = name;
    const GraphStatus status = *graphs_.Get(name);
    resource.serving.emplace();
    resource.serving->version = status.graph->parts().version;
    for (const FeatureSetHandle& set : status.feature_sets) {
      FeatureSetResource described;
      described.graph = name;
      described.name = set->name;
      described.version = set->version;
      resource.feature_sets.push_back(described);
    }
    durable_->Describe(&resource);
    return resource;
  }
  // What a new machine finds after a power failure: the number of published versions.
  size_t AfterPowerFailure(uint64_t seed) {
    testing::SplitMix64 random(seed);
    const auto files = files_.CutPower(random);
    const auto listing = OpenState(files.get())->List();
    EXPECT_TRUE(listing.ok() && listing->problems.empty());
    return listing.ok() ? listing->published.size() : 0;
  }

  const int64_t max_waiting_;
  FakeClock clock_;
  CountingStats stats_;
  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  state::SimulatedFileSystem files_;
  std::unique_ptr<state::StateDirectory> directory_ = OpenState(&files_);
  GraphStore graphs_{{}};
  ModelStore models_{{}};
  MemoryBudget budget_{0};
  std::unique_ptr<DurableStore> durable_ = Make();

 private:
  std::unique_ptr<DurableStore> Make() {
    DurableStore::Parts parts{directory_.get(), &graphs_, &models_, device_.get(), &budget_, &Logger::Null(), [] {}};
    parts.clock = &clock_;
    parts.stats = &stats_;
    parts.max_waiting = max_waiting_;
    return std::make_unique<DurableStore>(parts);
  }
};

// Leaves the graph on disk only.
inline void Evict(World& world, const std::string& name) {
  const auto listing = world.directory_->List();
  ASSERT_TRUE(listing.ok()) << listing.status();
  std::vector<state::Manifest> sets;
  for (const state::Manifest& manifest : listing->published) {
    if (manifest.id.graph == name) sets.push_back(manifest);
  }
  for (const state::Manifest& manifest : listing->published) {
    if (manifest.id.store != state::Store::kGraphs || manifest.id.name != name) continue;
    // The thread that loaded it holds it until it has told all who wait.
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    bool evicted = false;
    while (!(evicted = world.graphs_.Evict(name, DescribeStored(manifest, sets))) &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    ASSERT_TRUE(evicted);
  }
}

// Another server on the directory of `world`, which starts now.
struct Another {
  Another(World& world, bool read_only) {
    DurableStore::Parts parts{world.directory_.get(), &graphs,         &models, world.device_.get(),
                              &world.budget_,         &Logger::Null(), [] {}};
    parts.read_only = read_only;
    parts.stats = &world.stats_;
    store = std::make_unique<DurableStore>(parts);
    EXPECT_TRUE(store->Load().ok());
    while (!store->loaded()) std::this_thread::yield();
  }
  bool Serves(const std::string& graph) { return graphs.Find(graph, 0, "default", 0).ok(); }

  GraphStore graphs{{}};
  ModelStore models{{}};
  std::unique_ptr<DurableStore> store;
};

}  // namespace vicinal::durable

#endif  // VICINAL_TESTS_ENGINE_DURABLE_DURABLE_WORLD_H_

// SPDX-License-Identifier: Apache-2.0
// With a state directory the memory budget is a cache of graphs: they leave it when others need the memory, and come
// back with the same versions and bits when they are asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "tests/engine/api/small_world.h"
#include "tests/engine/durable/tier_testing.h"
#include "tests/support/temporary_directory.h"

namespace vicinal {
namespace {

using testing::AllNodes;
using testing::AwaitGraph;
using testing::ExpectAnswersToMany;
using testing::Infer;
using testing::kRingNodes;
using testing::Ring;
using testing::SmallModel;

class TiersTest : public testing::TierFixture {
 protected:
  void Start(int64_t budget_bytes) {
    EngineOptions options;
    options.device = "cpu";
    options.memory_budget_bytes = budget_bytes;
    options.state_dir = directory_ / "state";
    StartWith(options);
  }
  void AwaitDurable(const std::string& name) {
    Await(name, [](const GraphResource& graph) {
      return graph.state == GraphState::kReady && graph.serving->durability == Durability::kDurable &&
             (graph.feature_sets.empty() || graph.feature_sets[0].durability == Durability::kDurable);
    });
  }
  void Await(const std::string& name, const std::function<bool(const GraphResource&)>& reached) {
    auto told = std::make_shared<std::promise<void>>();
    auto once = std::make_shared<std::atomic<bool>>(false);
    const auto look = [&, told, once] {
      const auto graph = engine_->GetGraph(name);
      if (graph.ok() && reached(*graph) && !once->exchange(true)) told->set_value();
    };
    auto watch = engine_->WatchGraph(name, look);
    ASSERT_TRUE(watch.ok()) << watch.status();
    look();
    told->get_future().wait();
  }
  void Put(const std::string& name, bool pinned = false) {
    PutReady(name, pinned);
    AwaitDurable(name);
  }
  bool Resident(const std::string& name) { return engine_->GetGraph(name)->serving->in_memory(); }
  // Reserves all memory but that of the model and `bytes`: what does not fit in these has to go. An answer comes
  // shortly before its request lets go of the graph.
  Reservation TakeAllBut(int64_t bytes) {
    for (;;) {
      const MemoryUse use = engine_->memory().Snapshot();
      auto taken = engine_->memory().Reserve(Account::kUploads, use.budget - use.models - bytes, "a test");
      if (taken.ok()) return *std::move(taken);
      std::this_thread::yield();
    }
  }
  int64_t BytesOf(const std::string& name) {
    const GraphResource graph = *engine_->GetGraph(name);
    int64_t bytes = graph.serving->size_bytes;
    for (const FeatureSetResource& set : graph.feature_sets) bytes += set.size_bytes;
    return bytes;
  }
  // Graphs g0 to g(count - 1) and a model m, durable; an answer of each.
  std::vector<std::vector<float>> Fill(int count) {
    Start(0);
    EXPECT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
    std::vector<std::vector<float>> answers;
    for (int i = 0; i < count; ++i) {
      Put(absl::StrCat("g", i));
      answers.push_back(Answers(absl::StrCat("g", i)));
    }
    Stop();
    return answers;
  }
};

constexpr int64_t kBudget = 500 << 10;  // some of the graphs, with what a run takes

TEST_F(TiersTest, MoreGraphsThanMemoryServeWithTheSameBits) {
  constexpr int kGraphs = 40;
  const auto answers = Fill(kGraphs);
  Start(kBudget);
  int resident = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kGraphs; ++i) EXPECT_EQ(Answers(absl::StrCat("g", i)), answers[static_cast<size_t>(i)]) << i;
  }
  for (int i = 0; i < kGraphs; ++i) {
    const auto graph = engine_->GetGraph(absl::StrCat("g", i));
    ASSERT_TRUE(graph.ok());
    EXPECT_EQ(graph->state, GraphState::kReady);
    EXPECT_EQ(graph->node_count, kRingNodes);
    EXPECT_EQ(graph->feature_sets.size(), 1u);
    resident += graph->serving->in_memory() ? 1 : 0;
  }
  EXPECT_LT(resident, kGraphs);
  EXPECT_GT(resident, 0);
  EXPECT_GT(stats_.evictions, kGraphs);
}

TEST_F(TiersTest, TheLeastRecentlyUsedLeaves) {
  Fill(3);
  Start(0);
  const int64_t bytes = [&] {
    for (const char* const name : {"g0", "g1", "g2"}) Answers(name);
    return BytesOf("g0");
  }();
  Stop();
  Start(kBudget);
  AwaitStarted();
  for (const char* const name : {"g2", "g0", "g1"}) Answers(name);
  ASSERT_TRUE(Resident("g0") && Resident("g1") && Resident("g2"));
  const Reservation taken = TakeAllBut(5 * bytes / 2);
  EXPECT_FALSE(Resident("g2"));
  EXPECT_TRUE(Resident("g0"));
  EXPECT_TRUE(Resident("g1"));
}

TEST_F(TiersTest, BytesAreCountedWhereTheyAre) {
  const auto bytes_in = [&](const std::string& folder, const std::string& file) {
    int64_t bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_ / ("state/" + folder))) {
      if (entry.path().filename() != file) continue;
      struct stat info = {};
      EXPECT_EQ(stat(entry.path().c_str(), &info), 0);
      bytes += info.st_blocks * 512;
    }
    return bytes;
  };
  Fill(2);
  Start(0);
  const auto answers = Answers("g0");
  Answers("g1");
  const ResourceCounts both = engine_->Counts();
  EXPECT_EQ(both.on_disk.graphs, bytes_in("graphs", "graph.vsec"));
  EXPECT_EQ(both.on_disk.features, bytes_in("graphs", "features.vsec"));
  EXPECT_EQ(both.on_disk.models, bytes_in("models", "model.vsec"));
  EXPECT_EQ(both.on_host.features, 2 * kRingNodes * testing::kSmallFeatures * 4);
  EXPECT_EQ(both.on_host.graphs + both.on_host.features, BytesOf("g0") + BytesOf("g1"));
  EXPECT_EQ(both.on_host.models, engine_->GetModel("m")->size_bytes);
  EXPECT_EQ(both.on_device.graphs + both.on_device.features + both.on_device.models, 0) << "a CPU has one memory";
  Stop();
  Start(kBudget);
  AwaitStarted();
  Answers("g1");
  Answers("g0");
  { const Reservation taken = TakeAllBut(3 * BytesOf("g0") / 2); }
  ASSERT_FALSE(Resident("g1"));
  const ResourceCounts one = engine_->Counts();
  EXPECT_EQ(one.on_disk.graphs, both.on_disk.graphs);
  EXPECT_EQ(one.on_host.features, both.on_host.features / 2);
  ASSERT_TRUE(engine_->DeleteGraph("g1", 0).ok());
  EXPECT_EQ(engine_->Counts().on_disk.graphs, both.on_disk.graphs / 2);
  EXPECT_EQ(engine_->Counts().on_disk.features, both.on_disk.features / 2);
  Put("g2");
  EXPECT_EQ(engine_->Counts().on_disk.graphs, both.on_disk.graphs);
}

TEST_F(TiersTest, PinnedGraphsStay) {
  Start(kBudget);
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  Put("pinned", true);
  Put("other");
  const auto rows = Answers("pinned");
  Answers("other");
  { const Reservation taken = TakeAllBut(BytesOf("pinned") + BytesOf("other") - 1); }
  EXPECT_FALSE(Resident("other"));
  EXPECT_TRUE(Resident("pinned"));
  EXPECT_TRUE(engine_->GetGraph("pinned")->serving->pinned);
  Stop();
  Start(kBudget);
  EXPECT_EQ(Answers("pinned"), rows);
  EXPECT_TRUE(engine_->GetGraph("pinned")->serving->pinned);
}

TEST_F(TiersTest, AtTheStartTheMostRecentlyUsedComeFirst) {
  constexpr int kGraphs = 40;
  Fill(kGraphs);
  Start(kBudget);
  const std::vector<std::string> used = {"g17", "g3", "g29", "g8"};
  for (const std::string& name : used) Answers(name);
  Stop();
  stats_.evictions = 0;
  Start(kBudget);
  for (int i = 0; i < kGraphs; ++i) {
    Await(absl::StrCat("g", i), [](const GraphResource& graph) { return graph.state != GraphState::kLoading; });
  }
  // Two threads load. While one has begun with a graph and does not get on, the other may fill the memory.
  EXPECT_GE(std::count_if(used.begin(), used.end(), [&](const auto& name) { return Resident(name); }), 3);
  EXPECT_EQ(stats_.evictions, 0) << "the start evicts nothing";
}

TEST_F(TiersTest, ManyRequestsForOneGraphLoadItOnce) {
  const auto answers = Fill(1);
  Start(0);
  Await("g0", [](const GraphResource& graph) { return graph.state != GraphState::kLoading; });
  // Evicts it.
  Start(kBudget);
  Answers("g0");
  {
    const Reservation taken = TakeAllBut(0);
    ASSERT_FALSE(Resident("g0"));
  }
  const int loads = stats_.loads;
  ExpectAnswersToMany(*engine_, "g0", answers[0]);
  EXPECT_EQ(stats_.loads, loads + 1);
}

TEST_F(TiersTest, WhatIsOnDiskOnlyCanBeReplacedDeletedAndGivenFeatures) {
  Fill(3);
  Start(kBudget);
  for (const char* const name : {"g0", "g1", "g2"}) Answers(name);
  {
    const Reservation taken = TakeAllBut(0);
    ASSERT_FALSE(Resident("g0") || Resident("g1") || Resident("g2"));
  }
  const int64_t former = engine_->GetGraph("g0")->serving->version;
  GraphSource again = Ring("g0");
  again.replace = true;
  again.if_version = former;
  ASSERT_TRUE(engine_->PutGraph(std::move(again)).ok());
  AwaitDurable("g0");
  EXPECT_GT(AwaitGraph(*engine_, "g0")->serving->version, former);
  ASSERT_TRUE(engine_->DeleteGraph("g1", 0).ok());
  const std::vector<float> rows(kRingNodes * testing::kSmallFeatures, 0.5f);
  const HostTensor x = testing::Floats(rows, {kRingNodes, testing::kSmallFeatures});
  FeatureTensors tensors;
  tensors.dense = x.view();
  ASSERT_TRUE(engine_->PutFeatures("g2", "more", tensors, false, 0).ok());
  {
    const Reservation taken = TakeAllBut(0);
    ASSERT_FALSE(Resident("g2"));
  }
  const std::vector<FeatureSetResource> sets = engine_->GetGraph("g2")->feature_sets;
  ASSERT_EQ(sets.size(), 2u);
  const int64_t version = sets[0].version;
  EXPECT_EQ(engine_->DeleteFeatures("g2", "default", FeatureKind::kNodes, version + 100).code(), StatusCode::kAborted);
  EXPECT_EQ(engine_->DeleteFeatures("g2", "default", FeatureKind::kEdges).code(), StatusCode::kNotFound);
  ASSERT_TRUE(engine_->DeleteFeatures("g2", "default", FeatureKind::kNodes, version).ok());
  Stop();
  Start(kBudget);
  EXPECT_EQ(engine_->GetGraph("g1").status().code(), StatusCode::kNotFound);
  Answers("g0");
  InferenceRequest request = AllNodes("g2", "m");
  request.feature_set = "more";
  EXPECT_TRUE(Infer(*engine_, request).ok());
  EXPECT_EQ(Infer(*engine_, AllNodes("g2", "m")).status().code(), StatusCode::kNotFound);
}

TEST_F(TiersTest, ADamagedVersionGivesWayToTheOneBefore) {
  const auto answers = Fill(1);
  const std::string versions = directory_ / "state/graphs/g0";
  // The version that a replacement leaves for a while.
  Start(0);
  const int64_t first = engine_->GetGraph("g0")->serving->version;
  GraphSource again = Ring("g0");
  again.replace = true;
  ASSERT_TRUE(engine_->PutGraph(std::move(again)).ok());
  Await("g0", [&](const GraphResource& graph) {
    return graph.serving && graph.serving->version > first && graph.serving->durability == Durability::kDurable;
  });
  const int64_t second = engine_->GetGraph("g0")->serving->version;
  Stop();
  {
    std::fstream file(absl::StrCat(versions, "/", second, "/graph.vsec"),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    const int last = file.peek();
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(last ^ 1));
  }
  Start(0);
  EXPECT_EQ(Answers("g0"), answers[0]);
  EXPECT_EQ(engine_->GetGraph("g0")->serving->version, first);
  EXPECT_EQ(engine_->GetGraph("g0")->serving->durability, Durability::kDurable);
}

TEST_F(TiersTest, ManyThreadsUnderChurnGetTheirGraphsBits) {
  constexpr int kGraphs = 24, kThreads = 4, kCalls = 150;
  const auto answers = Fill(kGraphs);
  Start(kBudget);
  std::atomic<int> wrong{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      uint64_t state = static_cast<uint64_t>(t) + 1;
      for (int call = 0; call < kCalls; ++call) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        const auto i = static_cast<size_t>((state >> 33) % kGraphs);
        const auto result = Infer(*engine_, AllNodes(absl::StrCat("g", i), "m"));
        // All memory may be in use at a moment.
        if (!result.ok()) {
          ++refused;
          EXPECT_THAT(result.status().code(),
                      ::testing::AnyOf(StatusCode::kResourceExhausted, StatusCode::kUnavailable))
              << result.status();
        } else if (result->values != answers[i]) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LT(refused, kThreads * kCalls / 10);
}

}  // namespace
}  // namespace vicinal

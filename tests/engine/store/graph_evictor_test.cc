// SPDX-License-Identifier: Apache-2.0
#include "engine/store/graph_evictor.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/plan/own_memory_device.h"
#include "tests/engine/store/store_testing.h"

namespace vicinal {
namespace {

using testing::MakeGraph;
using testing::MakeMatrix;

class GraphEvictorTest : public ::testing::Test {
 protected:
  // Returns the bytes of the graph with its features.
  int64_t Publish(const std::string& name, int64_t nodes) {
    const int64_t version = graphs_.BeginPrepare(name, false, 0, nodes, 3 * nodes).value();
    const auto graph = MakeGraph(name, version, device_.get(), nodes);
    const auto features = MakeMatrix(device_.get(), nodes);
    graphs_.FinishPrepare(name, version, graph, features);
    return graph->size_bytes() + features->size_bytes();
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  GraphStore graphs_{{}};
  std::set<std::string> written_later_;
  GraphEvictor evictor_{{&graphs_, &Logger::Null(), &StatsSink::Null(),
                         [](const std::string&) -> std::optional<StoredGraph> { return std::nullopt; },
                         [this](const std::string& name) { return written_later_.contains(name); },
                         [](const std::string&, int64_t) {}}};
};

TEST_F(GraphEvictorTest, WhatIsBeingWrittenCanGoLater) {
  const int64_t a = Publish("a", 10), b = Publish("b", 1000);
  ASSERT_LT(a, b);
  EXPECT_FALSE(evictor_.Evict(1)) << "nothing is on disk";
  EXPECT_EQ(evictor_.PendingBytes(), 0) << "nothing will be";
  written_later_ = {"b"};
  EXPECT_EQ(evictor_.PendingBytes(), b);
  written_later_ = {"a", "b"};
  EXPECT_EQ(evictor_.PendingBytes(), a + b);
}

TEST_F(GraphEvictorTest, FeatureSetsOfEdgesAreBeingWrittenToo) {
  const int64_t bytes = Publish("g", 10);
  const auto graph = graphs_.Get("g")->graph;
  const auto values = std::make_shared<const std::vector<float>>(static_cast<size_t>(graph->num_edges() * 2), 1.0f);
  auto edges = EdgeMatrix::Make(graph->parts().csr, values, 2, *device_).value();
  const int64_t edge_bytes = edges->size_bytes();
  ASSERT_GT(edge_bytes, 0);
  ASSERT_TRUE(graphs_.PutEdgeFeatures("g", "daily", graph->parts().version, std::move(edges), false, 0).ok());
  written_later_ = {"g"};
  EXPECT_EQ(evictor_.PendingBytes(), bytes + edge_bytes);
}

// On a device with memory of its own.
class LeavingTest : public ::testing::Test {
 protected:
  int64_t Publish(const std::string& name, bool replace = false) {
    const int64_t version = graphs_.BeginPrepare(name, replace, 0, 10, 30).value();
    graphs_.FinishPrepare(name, version, MakeGraph(name, version, &gpu_), MakeMatrix(&gpu_));
    clock_.Advance(std::chrono::seconds(1));
    return version;
  }
  std::optional<StoredGraph> Describe(const std::string& name) const {
    const auto status = graphs_.Get(name);
    if (!status.ok() || status->graph == nullptr) return std::nullopt;
    StoredGraph stored;
    stored.serving.version = status->graph->parts().version;
    for (const FeatureSetHandle& set : status->feature_sets) {
      stored.feature_sets.emplace_back().name = set->name;
      stored.feature_sets.back().version = set->version;
      stored.feature_sets.back().kind = set->kind;
    }
    return stored;
  }
  bool HasLeft(const std::string& name) const { return graphs_.Get(name)->host != nullptr; }
  // Publishes what the loader would.
  void Return(const std::string& name) {
    const int64_t version = graphs_.StoredVersion(name);
    const auto copy = graphs_.HostCopyOf(name, version);
    ASSERT_NE(copy, nullptr);
    auto sets = copy->ReturnTo(gpu_);
    ASSERT_TRUE(sets.ok()) << sets.status();
    EXPECT_TRUE(graphs_.FinishLoad(name, version, copy->graph(), *std::move(sets)));
  }

  testing::OwnMemoryDevice gpu_;
  FakeClock clock_;
  GraphStore graphs_{[this] {
    GraphStore::Options options;
    options.clock = &clock_;
    return options;
  }()};
  std::set<std::string> stays_;
  std::vector<std::string> released_;
  GraphEvictor evictor_{
      {&graphs_, &Logger::Null(), &StatsSink::Null(),
       [this](const std::string& name) { return stays_.contains(name) ? std::nullopt : Describe(name); },
       [](const std::string&) { return false; },
       [this](const std::string& name, int64_t) { released_.push_back(name); }, &gpu_}};
};

TEST_F(LeavingTest, TheLeastRecentlyUsedLeavesTheDeviceAndReturns) {
  for (const char* const name : {"a", "b", "c"}) Publish(name);
  const int64_t version = graphs_.Get("a")->graph->parts().version;
  graphs_.Touch("b");
  const int64_t all = gpu_.allocated_bytes();
  ASSERT_EQ(all, 3 * 40) << "ten rows of one number each";
  EXPECT_EQ(evictor_.DeviceBytes(), all);
  EXPECT_EQ(evictor_.EvictFromDevice(1), 40);
  EXPECT_TRUE(HasLeft("a"));
  EXPECT_FALSE(HasLeft("b") || HasLeft("c"));
  EXPECT_EQ(gpu_.allocated_bytes(), all - 40);
  EXPECT_EQ(released_, std::vector<std::string>{"a"});
  EXPECT_EQ(evictor_.EvictFromDevice(1), 40);
  EXPECT_TRUE(HasLeft("c")) << "b was used later";
  EXPECT_EQ(graphs_.Get("a")->state, GraphState::kReady);
  EXPECT_EQ(ServingVersion(*graphs_.Get("a")), version);
  const Status away = graphs_.Find("a", 0, "", 0).status();
  EXPECT_EQ(DetailOf(away)->reason, "GRAPH_LOADING");
  EXPECT_NE(away.message().find("copied to the device"), absl::string_view::npos) << away;

  Return("a");
  EXPECT_FALSE(HasLeft("a"));
  const auto handle = graphs_.Find("a", version, "default", 0);
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_EQ(handle->features->matrix->ToHost(gpu_)->dense, std::vector<float>(10, 1.0f));
}

TEST_F(LeavingTest, WhoLooksAtAllGraphsKeepsOneAtATime) {
  for (const char* const name : {"a", "b", "c"}) Publish(name);
  std::vector<int64_t> freed;
  graphs_.ForEach([&](const GraphStatus& graph) {
    EXPECT_FALSE(graph.name == "b" && graph.host == nullptr) << "it left while a was looked at";
    freed.push_back(graph.name == "a" ? evictor_.EvictFromDevice(1) : 0);
  });
  EXPECT_EQ(freed, (std::vector<int64_t>{40, 0, 0}));
  EXPECT_TRUE(HasLeft("b"));
  EXPECT_FALSE(HasLeft("a"));
}

TEST_F(LeavingTest, FeaturesOfEdgesLeaveWithTheirGraphAndReturn) {
  Publish("g");
  auto graph = graphs_.Get("g")->graph;
  std::vector<float> values(static_cast<size_t>(graph->num_edges() * 2));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13) - 4.0f;
  auto edges =
      EdgeMatrix::Make(graph->parts().csr, std::make_shared<const std::vector<float>>(values), 2, gpu_).value();
  const int64_t there = (graph->num_edges() + graph->num_nodes()) * 2 * 4;
  EXPECT_EQ(edges->device_bytes(), there);
  EXPECT_EQ(edges->size_bytes(), there + graph->num_edges() * 2 * 4);
  std::vector<float> means(static_cast<size_t>(graph->num_nodes() * 2)), again = means;
  ASSERT_TRUE(gpu_.CopyToHost(means.data(), edges->means(), means.size() * sizeof(float)).ok());
  const int64_t graph_version = graph->parts().version;
  auto set = graphs_.PutEdgeFeatures("g", "daily", graph_version, std::move(edges), false, 0);
  ASSERT_TRUE(set.ok()) << set.status();
  const int64_t version = (*set)->version;
  EXPECT_EQ(evictor_.EvictFromDevice(1), 0) << "it is still used";
  set->reset();
  graph.reset();
  EXPECT_EQ(evictor_.EvictFromDevice(1), 40 + there);
  EXPECT_EQ(gpu_.allocated_bytes(), 0);
  EXPECT_TRUE(graphs_.Has("g", graph_version, "daily", version, FeatureKind::kEdges));
  EXPECT_FALSE(graphs_.Has("g", graph_version, "daily", version));
  Return("g");
  const auto handle = graphs_.Find("g", 0, "default", 0, {"daily", version});
  ASSERT_TRUE(handle.ok() && handle->edges.ok()) << handle.status();
  const EdgeMatrix& back = *(*handle->edges)->edges;
  EXPECT_EQ(*back.host(), values);
  std::vector<float> sent(values.size());
  ASSERT_TRUE(gpu_.CopyToHost(sent.data(), back.values(), sent.size() * sizeof(float)).ok());
  ASSERT_TRUE(gpu_.CopyToHost(again.data(), back.means(), again.size() * sizeof(float)).ok());
  EXPECT_EQ(sent, values);
  EXPECT_EQ(again, means);
}

TEST_F(LeavingTest, WhatIsUsedOrPinnedOrMayNotLeaveStays) {
  for (const char* const name : {"used", "features", "stays"}) Publish(name);
  stays_ = {"stays"};
  auto used = graphs_.Find("used", 0, "", 0);
  const auto features = graphs_.Get("features")->feature_sets.front()->matrix;
  EXPECT_EQ(evictor_.EvictFromDevice(1000), 0);
  used = Internal("over");
  EXPECT_EQ(evictor_.EvictFromDevice(1000), 40);
  EXPECT_TRUE(HasLeft("used"));
}

TEST_F(LeavingTest, WhatHasLeftCanBeChangedMeanwhile) {
  for (const char* const name : {"deleted", "replaced", "features"}) Publish(name);
  ASSERT_EQ(evictor_.EvictFromDevice(1000), 3 * 40);
  EXPECT_EQ(gpu_.allocated_bytes(), 0);
  EXPECT_TRUE(graphs_.Delete("deleted", 0).ok());
  const int64_t version = Publish("replaced", true);
  EXPECT_FALSE(HasLeft("replaced"));
  EXPECT_TRUE(graphs_.Find("replaced", version, "default", 0).ok());
  // A copy that is on its way back while its features are deleted.
  const int64_t left = graphs_.StoredVersion("features");
  const auto copy = graphs_.HostCopyOf("features", left);
  auto sets = copy->ReturnTo(gpu_);
  ASSERT_TRUE(graphs_.DeleteFeatures("features", "default").ok());
  EXPECT_TRUE(graphs_.FinishLoad("features", left, copy->graph(), *std::move(sets)));
  EXPECT_EQ(graphs_.Find("features", 0, "default", 0).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(graphs_.Find("features", 0, "", 0).ok());
}

TEST_F(LeavingTest, WhoeverBringsItBackEarlyTakesWhatHasNotLeft) {
  Publish("g");
  const auto copy = graphs_.LeaveDevice("g", *Describe("g"));
  ASSERT_NE(copy, nullptr);
  Return("g");  // before anything was copied
  EXPECT_EQ(*copy->LeaveDevice(gpu_), 40);
  const auto handle = graphs_.Find("g", 0, "default", 0);
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_EQ(handle->features->matrix->ToHost(gpu_)->dense, std::vector<float>(10, 1.0f));
}

TEST_F(LeavingTest, ShortOfHostMemoryTheCopyGoes) {
  Publish("g");
  ASSERT_EQ(evictor_.EvictFromDevice(1), 40);
  const int64_t version = graphs_.StoredVersion("g");
  EXPECT_TRUE(evictor_.Evict(1));
  EXPECT_FALSE(HasLeft("g"));
  EXPECT_EQ(graphs_.StoredVersion("g"), version);
  EXPECT_EQ(graphs_.Get("g")->stored->serving.tier, Tier::kDisk);
  EXPECT_FALSE(evictor_.Evict(1)) << "nothing is left";
}

}  // namespace
}  // namespace vicinal

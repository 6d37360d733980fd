// SPDX-License-Identifier: Apache-2.0
#include "engine/store/graph_evictor.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>

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

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// Batches of small graphs: block-diagonal, in the order sent; each thing that is refused is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/prepare/prepare.h"
#include "tests/engine/graph/graph_testing.h"

namespace vicinal {
namespace {

using testing::EdgeTensor;
using testing::FloatTensor;
using ::testing::HasSubstr;
using testing::Int32Tensor;
using testing::Int64Tensor;
using testing::MakeEdges;

class PrepareBatchTest : public ::testing::Test {
 protected:
  StatusOr<std::shared_ptr<const PreparedGraph>> Prepare(const HostTensor& ptr, const HostTensor& edge_index,
                                                         const std::optional<HostTensor>& weight = std::nullopt) {
    return PrepareBatch({ptr.view(), edge_index.view(),
                         weight ? std::optional<TensorView>(weight->view()) : std::nullopt, std::nullopt},
                        *device_);
  }
  void ExpectRefused(const HostTensor& ptr, const EdgeList& edges, const std::string& field,
                     const std::string& message) {
    const Status status = Prepare(ptr, EdgeTensor(edges)).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    ASSERT_TRUE(DetailOf(status).has_value());
    EXPECT_EQ(DetailOf(status)->field, field);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
};

TEST_F(PrepareBatchTest, KeepsTheOrder) {
  // Graphs of 2, 0 and 3 nodes.
  const EdgeList edges = MakeEdges(5, {{0, 1}, {4, 2}, {3, 2}, {2, 2}}, {1, 2, 3, 4});
  const auto graph = Prepare(Int64Tensor({4}, {0, 2, 2, 5}), EdgeTensor(edges), FloatTensor({4}, edges.weight));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const PreparedGraph::Parts& parts = (*graph)->parts();
  EXPECT_EQ(parts.segments, (std::vector<int64_t>{0, 2, 2, 5}));
  EXPECT_EQ(parts.csr.row_ptr, (std::vector<EdgeId>{0, 0, 1, 4, 4, 4}));
  EXPECT_EQ(parts.csr.col, (std::vector<NodeId>{0, 2, 3, 4}));
  EXPECT_EQ(parts.csr.value, (std::vector<float>{1, 4, 3, 2}));
  EXPECT_TRUE(parts.permutation.is_identity());
  EXPECT_EQ(parts.order, OrderKind::kNone);
  EXPECT_EQ(parts.numerics_revision, NumericsRevision(OrderKind::kNone));
  EXPECT_EQ(parts.profile.num_edges, 4);
  EXPECT_TRUE((*graph)->Adjacency({SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnSent}).ok());
}

TEST_F(PrepareBatchTest, FeaturesStayWithTheirEdges) {
  const HostTensor ptr = Int64Tensor({2}, {0, 3}), edges = EdgeTensor(MakeEdges(3, {{2, 0}, {1, 0}, {1, 0}, {0, 2}}));
  const HostTensor features = FloatTensor({4, 1}, {1, 2, 3, 4}), few = FloatTensor({3, 1}, {1, 2, 3});
  BatchTensors batch = {ptr.view(), edges.view(), std::nullopt, features.view()};
  const auto graph = PrepareBatch(batch, *device_);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->edge_feature_width(), 1);
  EXPECT_EQ((*graph)->parts().edge_attr, (std::vector<float>{2, 3, 1, 4}));
  EXPECT_GE(BatchBytesBound(batch, 3), (*graph)->size_bytes());
  batch.edge_attr = few.view();
  testing::ExpectRefused(PrepareBatch(batch, *device_), "edge_attr",
                         "edge_attr has 3 rows, but edge_index has 4 edges");
}

TEST_F(PrepareBatchTest, NamesTheFault) {
  const EdgeList edges = MakeEdges(3, {{0, 1}});
  ExpectRefused(Int64Tensor({2}, {1, 3}), edges, "ptr", "ptr[0] is 1; it must be 0");
  ExpectRefused(Int64Tensor({4}, {0, 2, 1, 3}), edges, "ptr",
                "ptr[2] is 1, below the 2 before it; it must not decrease");
  ExpectRefused(Int64Tensor({2}, {0, -3}), edges, "ptr", "ptr[1] is -3");
  ExpectRefused(Int64Tensor({1}, {0}), edges, "ptr", "ptr has 1 elements");
  ExpectRefused(Int64Tensor({0}, {}), edges, "ptr", "ptr has 0 elements");
  ExpectRefused(Int64Tensor({3}, {0, 0, 0}), edges, "ptr",
                "ptr ends with 0, the number of nodes; a batch has between 1 and");
  ExpectRefused(Int32Tensor({2}, {0, 3}), edges, "ptr", "ptr is int32; it must be int64");
  ExpectRefused(Int64Tensor({2}, {0, int64_t{1} << 40}), edges, "ptr", "ptr ends with 1099511627776");
  ExpectRefused(Int64Tensor({2}, {0, 1}), edges, "edge_index", "edge_index[1, 0] is 1; ids must be within 0..0");
  ExpectRefused(
      Int64Tensor({3}, {0, 1, 3}), edges, "edge_index",
      "edge_index[:, 0] goes from node 0 of graph 0 to node 1 of graph 1; both ends must be in the same graph");
  ExpectRefused(Int64Tensor({3}, {0, 2, 3}), MakeEdges(3, {{0, 1}, {2, 2}, {2, 1}}), "edge_index",
                "edge_index[:, 2] goes from node 2 of graph 1");
}

TEST_F(PrepareBatchTest, ManyTinyGraphs) {
  std::vector<int64_t> ptr = {0};
  EdgeList edges;
  for (int g = 0; g < 5000; ++g) {
    const NodeId first = static_cast<NodeId>(ptr.back());
    const NodeId size = 1 + g % 9;
    for (NodeId v = 0; v + 1 < size; ++v) {
      edges.source.push_back(first + v);
      edges.target.push_back(first + v + 1);
    }
    ptr.push_back(first + size);
  }
  edges.num_nodes = ptr.back();
  const auto graph = Prepare(Int64Tensor({5001}, ptr), EdgeTensor(edges));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ((*graph)->parts().segments, ptr);
  EXPECT_EQ((*graph)->num_edges(), edges.num_edges());
}

}  // namespace
}  // namespace vicinal

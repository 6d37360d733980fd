// SPDX-License-Identifier: Apache-2.0
// Edges out of tensors: what is fine comes out as sent, each fault is named.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "engine/graph/parallel_csr.h"
#include "engine/graph/validate.h"
#include "tests/engine/graph/graph_testing.h"

namespace vicinal {
namespace {

using testing::Bytes;
using testing::ExpectRefused;
using testing::FloatTensor;
using testing::Int32Tensor;
using testing::Int64Tensor;

StatusOr<EdgeList> Assemble(int64_t num_nodes, const HostTensor& edge_index) {
  return AssembleEdges(num_nodes, edge_index.view(), std::nullopt);
}

TEST(AssembleEdges, TakesBothIntegerTypes) {
  for (const HostTensor& tensor : {Int32Tensor({2, 3}, {0, 1, 1, 2, 1, 1}), Int64Tensor({2, 3}, {0, 1, 1, 2, 1, 1})}) {
    const auto edges = Assemble(3, tensor);
    ASSERT_TRUE(edges.ok()) << edges.status();
    EXPECT_EQ(edges->num_nodes, 3);
    EXPECT_EQ(edges->source, (std::vector<NodeId>{0, 1, 1}));
    EXPECT_EQ(edges->target, (std::vector<NodeId>{2, 1, 1}));  // a loop, twice: kept as sent
    EXPECT_FALSE(edges->weighted());
  }
}

TEST(AssembleEdges, TakesUnalignedBytes) {
  const std::string bytes = "x" + Bytes<int64_t>({0, 1, 1, 0});
  const TensorView view = {DataType::kInt64, {2, 2}, std::string_view(bytes).substr(1)};
  ASSERT_TRUE(AssembleEdges(2, view, std::nullopt).ok());
}

TEST(AssembleEdges, NoEdgesAreFine) {
  const auto edges = Assemble(5, Int32Tensor({2, 0}, {}));
  ASSERT_TRUE(edges.ok());
  EXPECT_EQ(edges->num_edges(), 0);
}

TEST(AssembleEdges, RefusesBadNodeCounts) {
  for (const int64_t count : {int64_t{0}, int64_t{-1}, int64_t{1} << 31, std::numeric_limits<int64_t>::max()}) {
    ExpectRefused(Assemble(count, Int32Tensor({2, 0}, {})), "node_count",
                  "node_count is " + std::to_string(count) + "; a graph has between 1 and 2147483647 nodes");
  }
}

TEST(AssembleEdges, RefusesBadShapesAndTypes) {
  ExpectRefused(Assemble(3, FloatTensor({2, 1}, {0, 1})), "edge_index",
                "edge_index is float32; it must be int32 or int64");
  ExpectRefused(Assemble(3, Int32Tensor({4}, {0, 1, 1, 0})), "edge_index", "has shape [4]; it must have 2 dimensions");
  ExpectRefused(Assemble(3, Int32Tensor({3, 1}, {0, 1, 1})), "edge_index", "has shape [3, 1]; it must be [2, E]");
  ExpectRefused(Assemble(3, Int32Tensor({2, -1}, {})), "edge_index", "an extent is negative");
  ExpectRefused(Assemble(3, Int32Tensor({2, int64_t{1} << 62}, {})), "edge_index", "too large");
  ExpectRefused(Assemble(3, Int64Tensor({2, 2}, {0, 1, 1})), "edge_index", "has 24 bytes, but int64 [2, 2] needs 32");
}

TEST(AssembleEdges, NamesTheFirstIdOutOfRange) {
  ExpectRefused(Assemble(2708, Int32Tensor({2, 3}, {0, 1, 2708, 0, 0, 9999})), "edge_index",
                "edge_index[0, 2] is 2708; ids must be within 0..2707");
  ExpectRefused(Assemble(3, Int32Tensor({2, 2}, {0, 1, -1, 0})), "edge_index",
                "edge_index[1, 0] is -1; ids must be within 0..2");
  // Would be node 1 if it were narrowed first.
  ExpectRefused(Assemble(3, Int64Tensor({2, 1}, {0, (int64_t{1} << 32) + 1})), "edge_index",
                "edge_index[1, 0] is 4294967297");
}

// More ids than one thread takes at a time.
TEST(AssembleEdges, ThreadsNameTheFirstIdOutOfRange) {
  constexpr int64_t kEdges = 700'000;
  constexpr int64_t kNodes = 1000;
  std::vector<int32_t> ids(2 * kEdges);
  for (int64_t i = 0; i < 2 * kEdges; ++i) ids[i] = static_cast<int32_t>(i * 7919 % kNodes);
  const HostTensor good = Int32Tensor({2, kEdges}, ids);
  for (const int64_t fault : {kEdges - 1, int64_t{300'000}, int64_t{17}}) ids[fault] = 1234;
  ids[kEdges + 1] = -1;
  const HostTensor bad = Int32Tensor({2, kEdges}, ids);
  for (const int threads : {1, 2, 7, 16}) {
    ThreadPool pool(threads);
    const auto edges = AssembleEdges(kNodes, good.view(), std::nullopt, &pool);
    ASSERT_TRUE(edges.ok()) << edges.status();
    const auto alone = Assemble(kNodes, good);
    EXPECT_EQ(edges->source, alone->source);
    EXPECT_EQ(edges->target, alone->target);
    ExpectRefused(AssembleEdges(kNodes, bad.view(), std::nullopt, &pool), "edge_index", "edge_index[0, 17] is 1234");
  }
}

TEST(AssembleEdges, ChecksWeights) {
  const HostTensor index = Int32Tensor({2, 2}, {0, 1, 1, 0});
  const auto assemble = [&](const HostTensor& weight) { return AssembleEdges(2, index.view(), weight.view()); };
  const auto edges = assemble(FloatTensor({2}, {0.5f, -2.0f}));
  ASSERT_TRUE(edges.ok()) << edges.status();
  EXPECT_EQ(edges->weight, (std::vector<float>{0.5f, -2.0f}));
  ExpectRefused(assemble(FloatTensor({3}, {1, 2, 3})), "edge_weight",
                "edge_weight has 3 values, but edge_index has 2 edges");
  ExpectRefused(assemble(FloatTensor({2}, {1, NAN})), "edge_weight", "edge_weight[1] is nan");
  ExpectRefused(assemble(FloatTensor({2}, {-INFINITY, 1})), "edge_weight", "edge_weight[0] is -inf");
  ExpectRefused(assemble(Int32Tensor({2}, {1, 1})), "edge_weight", "edge_weight is int32; it must be float32");
  ExpectRefused(assemble(FloatTensor({2, 1}, {1, 1})), "edge_weight", "it must have 1 dimension");
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// The bound of admission holds against what is kept, follows the tensors' bytes, and survives sizes that a client made
// up.
#include <gtest/gtest.h>

#include <limits>

#include "engine/graph/generators.h"
#include "engine/prepare/prepare.h"
#include "tests/engine/graph/graph_testing.h"

namespace vicinal {
namespace {

using testing::EdgeTensor;
using testing::FloatTensor;

GraphSource SourceOf(const EdgeList& edges, int64_t features) {
  GraphSource source;
  source.node_count = edges.num_nodes;
  source.edge_index = EdgeTensor(edges);
  if (features > 0)
    source.x = FloatTensor({edges.num_nodes, features}, std::vector<float>(edges.num_nodes * features, 1.0f));
  return source;
}

TEST(PreparationBytesBound, CoversWhatIsKept) {
  const std::unique_ptr<Device> device = MakeCpuDevice(1);
  const PrepareContext context = {device.get(), &Clock::Real(), &StatsSink::Null(), {}};
  for (const EdgeList& edges :
       {UniformGraph(1000, 5000, 1), UniformGraph(1000, 0, 1), UniformGraph(1, 100, 1), GridGraph(30)}) {
    for (const int64_t features : {0, 3, 200}) {
      GraphSource source = SourceOf(edges, features);
      const int64_t bound = PreparationBytesBound(source);
      EXPECT_GE(bound, static_cast<int64_t>(source.edge_index.bytes.size()));
      const auto upload = PrepareGraph(std::move(source), 1, context);
      ASSERT_TRUE(upload.ok());
      ASSERT_TRUE(upload->graph->Adjacency({SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnOnes}).ok());
      const int64_t kept = upload->graph->size_bytes() + (upload->features ? upload->features->size_bytes() : 0);
      EXPECT_GE(bound, kept);
    }
  }
}

TEST(PreparationBytesBound, IsNotWasteful) {
  // Within 8 times the bytes sent, for a graph whose features do not dominate.
  const GraphSource source = SourceOf(UniformGraph(10000, 200000, 1), 0);
  EXPECT_LE(PreparationBytesBound(source), 8 * static_cast<int64_t>(source.edge_index.bytes.size()));
}

TEST(PreparationBytesBound, SurvivesMadeUpSizes) {
  GraphSource source = SourceOf(UniformGraph(10, 20, 1), 0);
  for (const int64_t count : {std::numeric_limits<int64_t>::min(), int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    source.node_count = count;
    source.edge_index.shape = {2, count};
    EXPECT_GE(PreparationBytesBound(source), static_cast<int64_t>(source.edge_index.bytes.size()));
  }
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
#include "engine/prepared/graph_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

#include "tests/engine/graph/graph_testing.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using testing::MakeEdges;

class GraphPictureTest : public ::testing::Test {
 protected:
  std::shared_ptr<PreparedGraph> Make(const EdgeList& edges, std::vector<NodeId> new_of_old) {
    PreparedGraph::Parts parts;
    parts.name = "g";
    parts.version = 3;
    parts.csr = RenumberCsr(BuildCsrByTarget(edges), new_of_old);
    parts.permutation = Permutation::FromNewOfOld(std::move(new_of_old));
    return std::make_shared<PreparedGraph>(std::move(parts), device_.get());
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
};

TEST_F(GraphPictureTest, CountsDegreesAndTilesInBothOrders) {
  // 0 -> 1, 2 -> 1, 3 -> 1, 1 -> 3; the new order is 3, 1, 0, 2 (as new ids: 0:2, 1:1, 2:3, 3:0).
  const GraphPicture picture = PictureOf(*Make(MakeEdges(4, {{0, 1}, {2, 1}, {3, 1}, {1, 3}}), {2, 1, 3, 0}), 2);
  EXPECT_EQ(picture.graph, "g");
  EXPECT_EQ(picture.version, 3);
  EXPECT_THAT(picture.degree_counts, ElementsAre(2, 1, 1)) << "nodes of degree 0, 1, and 2 to 3";
  EXPECT_EQ(picture.side, 2);
  // Targets 1 (first half) from 0 (first), 2 and 3 (second); target 3 (second) from 1 (first).
  EXPECT_THAT(picture.before, ElementsAre(1, 2, 1, 0));
  // New ids: 2 -> 1, 3 -> 1, 0 -> 1, 1 -> 0.
  EXPECT_THAT(picture.after, ElementsAre(2, 2, 0, 0));
}

TEST_F(GraphPictureTest, HasNoMoreTilesThanNodes) {
  const GraphPicture picture = PictureOf(*Make(MakeEdges(2, {{0, 1}}), {0, 1}), 64);
  EXPECT_EQ(picture.side, 2);
  EXPECT_THAT(picture.after, ElementsAre(0, 0, 1, 0));
}

TEST_F(GraphPictureTest, LooksAtSomeRowsOnlyWhereThereAreManyEdges) {
  EdgeList edges = MakeEdges(1000, {});
  for (NodeId node = 0; node < 1000; ++node) edges.source.push_back(node), edges.target.push_back(node);
  std::vector<NodeId> same(1000);
  std::iota(same.begin(), same.end(), 0);
  const GraphPicture picture = PictureOf(*Make(edges, same), 10, 100);
  EXPECT_EQ(picture.row_stride, 10);
  EXPECT_EQ(std::accumulate(picture.after.begin(), picture.after.end(), int64_t{0}), 100);
  EXPECT_THAT(picture.degree_counts, ElementsAre(0, 1000)) << "degrees are of all nodes";
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// Adjacencies are derived once, shared by specs that mean the same, and named in the client's ids when they cannot be.
#include "engine/prepared/prepared_graph.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/adjacency.h"
#include "tests/engine/graph/graph_testing.h"
#include "tests/engine/plan/own_memory_device.h"
#include "tests/engine/prepared/prepared_testing.h"
#include "tests/support/generators.h"

namespace vicinal {
namespace {

using testing::ExpectEqual;
using testing::MakeEdges;

class PreparedGraphTest : public ::testing::Test {
 protected:
  std::shared_ptr<PreparedGraph> Make(const EdgeList& edges, std::vector<NodeId> new_of_old = {}) {
    PreparedGraph::Parts parts;
    parts.csr = BuildCsrByTarget(edges);
    parts.permutation = Permutation::Identity(edges.num_nodes);
    if (!new_of_old.empty()) {
      parts.csr = RenumberCsr(parts.csr, new_of_old);
      parts.permutation = Permutation::FromNewOfOld(std::move(new_of_old));
    }
    return std::make_shared<PreparedGraph>(std::move(parts), device_.get());
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
};

TEST_F(PreparedGraphTest, DerivesOnceAndSharesWhatMeansTheSame) {
  const auto graph = Make(UniformGraph(40, 100, 2));
  const int64_t bare = graph->size_bytes();
  const AdjacencySpec ones = {SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnOnes};
  const auto first = graph->Adjacency(ones);
  ASSERT_TRUE(first.ok());
  ExpectEqual((*first)->view(), *BuildAdjacency(graph->parts().csr, ones));
  EXPECT_EQ(graph->size_bytes(), bare + (*first)->size_bytes());
  EXPECT_EQ(graph->device_bytes(), (*first)->size_bytes());
  EXPECT_EQ(*graph->Adjacency(ones), *first);
  EXPECT_EQ(*graph->Adjacency({SelfLoops::kAddRemaining, 2.0f, EdgeWeighting::kGcnSent}), *first);
  EXPECT_EQ(*graph->Adjacency({SelfLoops::kReplace, 1.0f, EdgeWeighting::kGcnOnes}), *first);
  EXPECT_NE(*graph->Adjacency({SelfLoops::kAsSent, 1.0f, EdgeWeighting::kGcnOnes}), *first);
  EXPECT_NE(*graph->Adjacency({SelfLoops::kReplace, 1.0f, EdgeWeighting::kNone}), *first);
}

TEST_F(PreparedGraphTest, OutEdgesAreAnAdjacencyOfTheirOwn) {
  const auto graph = Make(MakeEdges(3, {{0, 1}, {0, 2}, {2, 1}}));
  AdjacencySpec out;
  out.transposed = true;
  const int64_t before = graph->size_bytes();
  EXPECT_FALSE(graph->Holds(out));
  const auto turned = graph->Adjacency(out);
  ASSERT_TRUE(turned.ok()) << turned.status();
  ExpectEqual((*turned)->view(), BuildCsrByTarget(MakeEdges(3, {{1, 0}, {2, 0}, {1, 2}})));
  EXPECT_EQ(graph->size_bytes(), before + graph->ShapeOf(out).bytes);
  EXPECT_NE(*graph->Adjacency(AdjacencySpec()), *turned);
}

TEST_F(PreparedGraphTest, WeightedGraphsKeepTheirSpecsApart) {
  const auto graph = Make(MakeEdges(3, {{0, 1}, {1, 1}, {1, 2}}, {2, 3, 4}));
  const auto sent = graph->Adjacency({SelfLoops::kAddRemaining, 2.0f, EdgeWeighting::kGcnSent});
  const auto ones = graph->Adjacency({SelfLoops::kAddRemaining, 2.0f, EdgeWeighting::kGcnOnes});
  ASSERT_TRUE(sent.ok() && ones.ok());
  EXPECT_NE(*sent, *ones);
  EXPECT_TRUE(graph->weighted());
  ExpectEqual((*graph->Adjacency({SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSent}))->view(), graph->parts().csr);
}

TEST_F(PreparedGraphTest, RefusalsNameTheClientsIdsAndAreNotKept) {
  const auto graph = Make(MakeEdges(3, {{0, 1}, {1, 2}}, {-5, 1}), {2, 0, 1});  // node 1 is called 0 inside
  const AdjacencySpec gcn = {SelfLoops::kAsSent, 1.0f, EdgeWeighting::kGcnSent};
  for (int i = 0; i < 2; ++i) {
    const Status refused = graph->Adjacency(gcn).status();
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
    EXPECT_NE(refused.message().find("node 1 weigh -5"), absl::string_view::npos) << refused;
  }
  const auto unweighted = Make(MakeEdges(2, {{0, 1}}));
  EXPECT_EQ(DetailOf(unweighted->Adjacency({SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSent}).status())->reason,
            "EDGE_WEIGHT_MISSING");
}

// A layout that counts the edges of what it was made from.
class EdgeCount final : public AdjacencyLayout {
 public:
  explicit EdgeCount(int64_t edges) : edges(edges) {}
  int64_t size_bytes() const override { return 1000; }
  const int64_t edges;
};

TEST_F(PreparedGraphTest, MakesEachLayoutOnce) {
  const auto graph = Make(UniformGraph(40, 100, 2));
  const AdjacencySpec as_sent, looped = {SelfLoops::kReplace, 1.0f, EdgeWeighting::kNone};
  int made = 0;
  const LayoutMaker make = [&](LayoutSource& source) -> StatusOr<AdjacencyLayoutRef> {
    ++made;
    EXPECT_TRUE(source.blocks().empty());
    EXPECT_EQ(&source.device(), device_.get());
    EXPECT_EQ(source.OnHost()->col, source.adjacency().col) << "on the CPU nothing is copied";
    EXPECT_GE(source.pool().num_threads(), 1);
    return AdjacencyLayoutRef(std::make_shared<EdgeCount>(source.adjacency().nnz));
  };
  ASSERT_TRUE(graph->Adjacency(as_sent).ok() && graph->Adjacency(looped).ok());
  const int64_t bare = graph->size_bytes();
  const auto first = graph->Layout(as_sent, "groups", "16", make);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(graph->size_bytes(), bare + 1000);
  EXPECT_EQ(*graph->Layout(as_sent, "groups", "16", make), *first);
  EXPECT_FALSE(graph->Layout({SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSent}, "groups", "16", make).ok());
  EXPECT_EQ(made, 1) << "where the adjacency cannot be derived nothing is made";
  EXPECT_NE(*graph->Layout(as_sent, "groups", "32", make), *first);
  EXPECT_NE(*graph->Layout(as_sent, "blocks", "16", make), *first);
  const auto other = graph->Layout(looped, "groups", "16", make);
  EXPECT_EQ(static_cast<const EdgeCount&>(**other).edges, (*graph->Adjacency(looped))->view().nnz);
  EXPECT_EQ(made, 4);
  const LayoutMaker fails = [](LayoutSource&) -> StatusOr<AdjacencyLayoutRef> {
    return FailedPrecondition("NO_BLOCKS", "nothing is dense");
  };
  EXPECT_EQ(graph->Layout(as_sent, "fails", "", fails).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(graph->Layout(as_sent, "fails", "", make).ok()) << "a failure is not kept";
}

TEST_F(PreparedGraphTest, TellsWhichLayoutsItHasAndWhenOneWasMade) {
  const auto graph = Make(UniformGraph(40, 100, 2));
  const LayoutMaker make = [](LayoutSource&) -> StatusOr<AdjacencyLayoutRef> {
    return AdjacencyLayoutRef(std::make_shared<EdgeCount>(0));
  };
  EXPECT_TRUE(graph->Layouts().empty());
  std::vector<size_t> told;  // layouts at each notice
  graph->NotifyOfLayouts([&] { told.push_back(graph->Layouts().size()); });
  const AdjacencySpec looped = {SelfLoops::kReplace, 1.0f, EdgeWeighting::kNone};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(graph->Layout({}, "groups", "16", make).ok());
    ASSERT_TRUE(graph->Layout(looped, "groups", "16", make).ok());
  }
  EXPECT_EQ(told, (std::vector<size_t>{1, 2}));
  const auto layouts = graph->Layouts();
  ASSERT_EQ(layouts.size(), 2);
  EXPECT_EQ(layouts[1].key, (PreparedGraph::LayoutKey{looped, "groups", "16"}));
  EXPECT_EQ(layouts[1].layout, *graph->Layout(looped, "groups", "16", make));
  EXPECT_GE(layouts[1].make_seconds, 0.0);
}

TEST_F(PreparedGraphTest, KeepsLayoutsThatAreUsedAndAFewMore) {
  const auto graph = Make(UniformGraph(40, 100, 2));
  const LayoutMaker make = [](LayoutSource&) -> StatusOr<AdjacencyLayoutRef> {
    return AdjacencyLayoutRef(std::make_shared<EdgeCount>(0));
  };
  const auto used = graph->Layout({}, "groups", "used", make);
  const int64_t with_one = graph->size_bytes();
  for (size_t i = 0; i < 3 * PreparedGraph::kMaxLayouts; ++i) {
    ASSERT_TRUE(graph->Layout({}, "groups", std::to_string(i), make).ok());
  }
  EXPECT_EQ(graph->size_bytes(), with_one + 1000 * static_cast<int64_t>(PreparedGraph::kMaxLayouts - 1));
  EXPECT_EQ(*graph->Layout({}, "groups", "used", make), *used);
}

TEST_F(PreparedGraphTest, LeavesTheDeviceAndReturnsAsItWas) {
  testing::OwnMemoryDevice gpu;
  PreparedGraph::Parts parts;
  parts.csr = BuildCsrByTarget(UniformGraph(40, 100, 2));
  parts.permutation = Permutation::Identity(40);
  parts.edge_feature_width = 1;
  parts.edge_attr.assign(static_cast<size_t>(parts.csr.nnz()), 0.5f);
  const PreparedGraph graph(std::move(parts), &gpu);
  MemoryBudget budget(0);
  graph.AddReservation(*budget.Reserve(Account::kGraphs, 1 << 20, "a test"));
  const LayoutMaker make = [](LayoutSource&) -> StatusOr<AdjacencyLayoutRef> {
    return AdjacencyLayoutRef(std::make_shared<EdgeCount>(0));
  };
  const AdjacencySpec sent, looped = {SelfLoops::kReplace, 1.0f, EdgeWeighting::kGcnOnes};
  const int64_t bare = graph.size_bytes();
  ASSERT_TRUE(graph.Adjacency(sent).ok() && graph.Adjacency(looped).ok());
  ASSERT_TRUE(graph.DegreeScale(SelfLoops::kReplace).ok() && graph.EdgeFeatures().ok());
  ASSERT_TRUE(graph.MeanEdgeFeatures().ok());
  const int64_t derived = graph.device_bytes();
  ASSERT_TRUE(graph.Layout(sent, "groups", "16", make).ok());
  graph.LeaveDevice();
  EXPECT_EQ(gpu.allocated_bytes(), 0);
  EXPECT_EQ(graph.device_bytes(), 0);
  EXPECT_EQ(graph.size_bytes(), bare);
  EXPECT_EQ(budget.Snapshot().graphs, bare);
  EXPECT_EQ(graph.returning_bytes(), derived) << "layouts are not among what returns";
  EXPECT_FALSE(graph.Holds(sent) || graph.Holds(SelfLoops::kReplace) || graph.HoldsEdgeFeatures());
  EXPECT_TRUE(graph.Layouts().empty());

  ASSERT_TRUE(graph.ReturnToDevice().ok());
  EXPECT_EQ(graph.device_bytes(), derived);
  EXPECT_EQ(graph.returning_bytes(), 0);
  EXPECT_TRUE(graph.Holds(sent) && graph.Holds(looped) && graph.Holds(SelfLoops::kReplace));
  EXPECT_TRUE(graph.HoldsEdgeFeatures() && graph.HoldsMeanEdgeFeatures());
  const auto back = graph.Adjacency(looped);
  const testing::GuardedMemory::Opened opened(gpu.memory());
  ExpectEqual((*back)->view(), *BuildAdjacency(graph.parts().csr, looped));
}

TEST_F(PreparedGraphTest, ThreadsGetTheSameAdjacency) {
  const auto graph = Make(UniformGraph(2000, 20000, 4));
  std::vector<std::shared_ptr<const DeviceCsr>> found(8);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (const SelfLoops loops : {SelfLoops::kAsSent, SelfLoops::kReplace}) {
        auto adjacency = graph->Adjacency({loops, 1.0f, EdgeWeighting::kGcnOnes});
        if (adjacency.ok()) found[i] = *std::move(adjacency);
        graph->size_bytes();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_NE(found[0], nullptr);
  for (const auto& adjacency : found) EXPECT_EQ(adjacency, found[0]);
}

}  // namespace
}  // namespace vicinal

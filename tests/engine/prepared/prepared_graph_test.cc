// SPDX-License-Identifier: Apache-2.0
// Uploads keep what they are given; adjacencies are derived once, shared by specs that mean the same, and named in the
// client's ids when they cannot be.
#include "engine/prepared/prepared_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/adjacency.h"
#include "tests/engine/graph/graph_testing.h"
#include "tests/engine/plan/own_memory_device.h"
#include "tests/support/generators.h"

namespace vicinal {
namespace {

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

void ExpectEqual(const CsrView& view, const Csr& csr) {
  ASSERT_EQ(view.rows, csr.num_rows);
  ASSERT_EQ(view.cols, csr.num_cols);
  ASSERT_EQ(view.nnz, csr.nnz());
  EXPECT_EQ(std::vector<EdgeId>(view.row_ptr, view.row_ptr + view.rows + 1), csr.row_ptr);
  EXPECT_EQ(std::vector<NodeId>(view.col, view.col + view.nnz), csr.col);
  ASSERT_EQ(view.value == nullptr, csr.value.empty());
  if (view.value != nullptr) {
    EXPECT_EQ(std::vector<float>(view.value, view.value + view.nnz), csr.value);
  }
}

TEST_F(PreparedGraphTest, UploadsCsr) {
  for (const EdgeList& edges : {UniformGraph(50, 200, 1), MakeEdges(3, {}), MakeEdges(2, {{0, 1}, {1, 0}}, {2, 3})}) {
    const Csr csr = BuildCsrByTarget(edges);
    const auto uploaded = DeviceCsr::Upload(csr, *device_);
    ASSERT_TRUE(uploaded.ok()) << uploaded.status();
    ExpectEqual((*uploaded)->view(), csr);
    EXPECT_EQ((*uploaded)->size_bytes(), csr.size_bytes());
  }
}

TEST_F(PreparedGraphTest, UploadsFeatures) {
  HostFeatures dense;
  dense.rows = 2;
  dense.cols = 3;
  dense.dense = {1, 2, 3, 4, 5, 6};
  const auto matrix = FeatureMatrix::Upload(dense, *device_);
  ASSERT_TRUE(matrix.ok());
  EXPECT_FALSE((*matrix)->sparse());
  EXPECT_EQ((*matrix)->entries(), 6);
  EXPECT_EQ((*matrix)->size_bytes(), 24);
  const ConstMatrixView view = (*matrix)->dense();
  EXPECT_EQ(view.rows, 2);
  EXPECT_EQ(view.cols, 3);
  EXPECT_EQ(view.row(1)[2], 6.0f);

  HostFeatures sparse;
  sparse.sparse = true;
  sparse.rows = sparse.csr.num_rows = 2;
  sparse.cols = sparse.csr.num_cols = 9;
  sparse.csr.row_ptr = {0, 1, 3};
  sparse.csr.col = {8, 0, 4};
  sparse.csr.value = {1, 2, 3};
  const auto sparse_matrix = FeatureMatrix::Upload(sparse, *device_);
  ASSERT_TRUE(sparse_matrix.ok());
  EXPECT_TRUE((*sparse_matrix)->sparse());
  EXPECT_EQ((*sparse_matrix)->entries(), 3);
  EXPECT_EQ((*sparse_matrix)->rows(), 2);
  EXPECT_EQ((*sparse_matrix)->cols(), 9);
  ExpectEqual((*sparse_matrix)->csr(), sparse.csr);
}

TEST_F(PreparedGraphTest, FeaturesThatAreMadeInPartsAreTheSame) {
  testing::OwnMemoryDevice gpu;
  for (const int64_t cols : {3, 33, 64}) {
    HostFeatures dense;
    dense.rows = 50;
    dense.cols = cols;
    for (int64_t i = 0; i < dense.rows * cols; ++i) dense.dense.push_back(static_cast<float>(i) + 1.0f);
    const FillNumbers fill = [&](int64_t begin, int64_t count, float* to) {
      std::copy_n(dense.dense.data() + begin, count, to);
      return OkStatus();
    };
    for (Device* const device : {static_cast<Device*>(&gpu), device_.get()}) {
      const auto whole = FeatureMatrix::Upload(dense, *device);
      const auto made = FeatureMatrix::FillDenseInParts(dense.rows, cols, *device, fill);
      ASSERT_TRUE(whole.ok() && made.ok()) << made.status();
      EXPECT_EQ((*made)->size_bytes(), (*whole)->size_bytes());
      EXPECT_EQ((*made)->device_bytes(), (*made)->size_bytes());
      EXPECT_EQ((*made)->entries(), (*whole)->entries());
      const ConstMatrixView view = (*made)->dense(), expected = (*whole)->dense();
      ASSERT_EQ(view.stride, expected.stride);
      const testing::GuardedMemory::Opened opened(gpu.memory());
      for (int64_t i = 0; i < dense.rows * view.stride; ++i) ASSERT_EQ(view.data[i], expected.data[i]) << i;
    }
  }
}

TEST_F(PreparedGraphTest, RowsOfFeaturesBeginAlignedOnAGpu) {
  testing::OwnMemoryDevice gpu;
  const std::pair<int64_t, int64_t> strides[] = {{3, 3},     {31, 31},   {33, 36},    {64, 64},
                                                 {127, 128}, {129, 144}, {1433, 1440}};
  for (const auto& [cols, stride] : strides) {
    HostFeatures dense;
    dense.rows = 3000;  // more than travel at once
    dense.cols = cols;
    for (int64_t i = 0; i < dense.rows * cols; ++i) dense.dense.push_back(static_cast<float>(i));
    const auto matrix = FeatureMatrix::Upload(dense, gpu);
    ASSERT_TRUE(matrix.ok());
    const ConstMatrixView view = (*matrix)->dense();
    EXPECT_EQ(view.stride, stride);
    EXPECT_EQ(view.cols, cols);
    EXPECT_EQ((*matrix)->entries(), dense.rows * cols);
    EXPECT_EQ((*matrix)->size_bytes(), dense.rows * stride * 4);
    EXPECT_EQ(FeatureMatrix::BytesOn(dense, gpu), (*matrix)->size_bytes());
    EXPECT_EQ(FeatureMatrix::BytesOn(dense, *device_), dense.rows * cols * 4);
    const testing::GuardedMemory::Opened opened(gpu.memory());
    for (int64_t r = 0; r < dense.rows; ++r) {
      ASSERT_EQ(view.row(r)[0], static_cast<float>(r * cols));
      ASSERT_EQ(view.row(r)[cols - 1], static_cast<float>((r + 1) * cols - 1));
    }
  }
}

HostFeatures DenseRows(int64_t rows, int64_t cols, float first) {
  HostFeatures dense;
  dense.rows = rows;
  dense.cols = cols;
  for (int64_t i = 0; i < rows * cols; ++i) dense.dense.push_back(first + static_cast<float>(i));
  return dense;
}

HostFeatures SparseRows(std::vector<EdgeId> row_ptr, std::vector<NodeId> col, std::vector<float> value) {
  HostFeatures sparse;
  sparse.sparse = true;
  sparse.rows = sparse.csr.num_rows = static_cast<int64_t>(row_ptr.size()) - 1;
  sparse.cols = sparse.csr.num_cols = 9;
  sparse.csr.row_ptr = std::move(row_ptr);
  sparse.csr.col = std::move(col);
  sparse.csr.value = std::move(value);
  return sparse;
}

TEST_F(PreparedGraphTest, FeaturesComeBackToTheHostAsTheyWere) {
  testing::OwnMemoryDevice gpu;
  for (Device* const device : {static_cast<Device*>(&gpu), device_.get()}) {
    for (const int64_t cols : {3, 33, 1433}) {  // with padding, and more rows than travel at once
      const HostFeatures dense = DenseRows(3000, cols, 1);
      const auto back = (*FeatureMatrix::Upload(dense, *device))->ToHost(*device);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_FALSE(back->sparse);
      EXPECT_EQ(back->rows, dense.rows);
      EXPECT_EQ(back->cols, cols);
      EXPECT_EQ(back->dense, dense.dense);
    }
    for (const std::vector<float>& values : {std::vector<float>{1, 2, 3}, std::vector<float>()}) {
      const HostFeatures sparse = SparseRows({0, 1, 3}, {8, 0, 4}, values);
      const auto back = (*FeatureMatrix::Upload(sparse, *device))->ToHost(*device);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_TRUE(back->sparse);
      EXPECT_EQ(back->rows, sparse.rows);
      EXPECT_EQ(back->cols, sparse.cols);
      EXPECT_EQ(back->csr.row_ptr, sparse.csr.row_ptr);
      EXPECT_EQ(back->csr.col, sparse.csr.col);
      EXPECT_EQ(back->csr.value, sparse.csr.value);
    }
  }
}

TEST_F(PreparedGraphTest, RowsOfSeveralMatricesStandOneAfterTheOther) {
  testing::OwnMemoryDevice gpu;
  for (const int64_t cols : {3, 33}) {  // on the GPU, rows of 33 have padding
    const auto a = FeatureMatrix::Upload(DenseRows(2, cols, 1), gpu);
    const auto b = FeatureMatrix::Upload(DenseRows(1, cols, 500), gpu);
    ASSERT_TRUE(a.ok() && b.ok());
    const auto all = FeatureMatrix::Concatenate({a->get(), b->get(), a->get()}, gpu);
    ASSERT_TRUE(all.ok()) << all.status();
    const ConstMatrixView view = (*all)->dense();
    ASSERT_EQ(view.rows, 5);
    ASSERT_EQ(view.cols, cols);
    EXPECT_EQ((*all)->size_bytes(), FeatureMatrix::BytesOn(DenseRows(5, cols, 0), gpu));
    const testing::GuardedMemory::Opened opened(gpu.memory());
    const int64_t firsts[] = {1, 1 + cols, 500, 1, 1 + cols};
    for (int64_t r = 0; r < 5; ++r) {
      for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(view.row(r)[c], static_cast<float>(firsts[r] + c));
    }
  }
}

TEST_F(PreparedGraphTest, SparseRowsOfSeveralMatricesStandOneAfterTheOther) {
  testing::OwnMemoryDevice gpu;
  const HostFeatures sparse[] = {SparseRows({0, 1, 3}, {8, 0, 4}, {1, 2, 3}), SparseRows({0, 0}, {}, {}),
                                 SparseRows({0, 2}, {5, 6}, {})};
  const HostFeatures together = SparseRows({0, 1, 3, 3, 5}, {8, 0, 4, 5, 6}, {1, 2, 3, 1, 1});
  std::vector<std::shared_ptr<const FeatureMatrix>> there, here;
  std::vector<const FeatureMatrix*> parts_there, parts_here;
  for (const HostFeatures& features : sparse) {
    there.push_back(*FeatureMatrix::Upload(features, gpu));
    here.push_back(*FeatureMatrix::Upload(features, *device_));
    parts_there.push_back(there.back().get());
    parts_here.push_back(here.back().get());
  }
  const auto on_gpu = FeatureMatrix::Concatenate(parts_there, gpu);
  const auto on_cpu = FeatureMatrix::Concatenate(parts_here, *device_);
  ASSERT_TRUE(on_gpu.ok() && on_cpu.ok());
  ExpectEqual((*on_cpu)->csr(), together.csr);
  EXPECT_EQ((*on_cpu)->size_bytes(), FeatureMatrix::BytesOn(together, *device_));
  const testing::GuardedMemory::Opened opened(gpu.memory());
  ExpectEqual((*on_gpu)->csr(), together.csr);
  EXPECT_EQ((*on_gpu)->size_bytes(), FeatureMatrix::BytesOn(together, gpu));
  EXPECT_EQ(std::vector<EdgeId>((*on_gpu)->host_row_ptr(), (*on_gpu)->host_row_ptr() + 5), together.csr.row_ptr);
  // Without a value anywhere there is none together.
  const auto plain = FeatureMatrix::Concatenate({parts_here[2], parts_here[2]}, *device_);
  ASSERT_TRUE(plain.ok());
  ExpectEqual((*plain)->csr(), SparseRows({0, 2, 4}, {5, 6, 5, 6}, {}).csr);
}

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

// SPDX-License-Identifier: Apache-2.0
// The upload spine: what comes out is the graph that went in, renamed by the permutation, features too; stages are
// timed by the injected clock and told as they end; a fault ends it with its message.
#include "engine/prepare/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/graph/graph_testing.h"
#include "tests/engine/reorder/reorder_testing.h"
#include "tests/support/generators.h"

namespace vicinal {
namespace {

using testing::EdgeTensor;
using testing::FloatTensor;
using ::testing::HasSubstr;
using testing::Int32Tensor;
using testing::Int64Tensor;

// Each stage takes one second more than the one before, as the clock says.
class SteppingClock final : public Clock {
 public:
  MonotonicTime Now() const override {
    ++calls_;
    if (calls_ % 2 == 0) now_ += std::chrono::seconds(calls_ / 2);
    return now_;
  }
  WallTime WallNow() const override { return WallTime(std::chrono::hours(24)); }

 private:
  mutable int calls_ = 0;
  mutable MonotonicTime now_{};
};

class RecordingStats final : public StatsSink {
 public:
  void StageSeconds(std::string_view stage, double seconds) override { stages.emplace_back(stage, seconds); }
  void PhaseSeconds(std::string_view, double) override {}
  void QueueDepth(int64_t) override {}
  std::vector<std::pair<std::string, double>> stages;
};

// So small that the graphs of these tests do not fit.
constexpr CacheSizes kSmallCaches = {int64_t{1} << 14, int64_t{1} << 18};

class PrepareTest : public ::testing::Test {
 protected:
  GraphSource Source(const EdgeList& edges, OrderKind order) {
    GraphSource source;
    source.name = "g";
    source.node_count = edges.num_nodes;
    source.edge_index = EdgeTensor(edges);
    if (edges.weighted()) source.edge_weight = FloatTensor({edges.num_edges()}, edges.weight);
    source.order = order;
    return source;
  }
  StatusOr<PreparedUpload> Prepare(GraphSource source) {
    PrepareContext context = {device_.get(), &clock_, &stats_,
                              [&](double progress, std::string_view next) { progress_.emplace_back(progress, next); }};
    context.choose.caches = kSmallCaches;
    return PrepareGraph(std::move(source), 7, context);
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  SteppingClock clock_;
  RecordingStats stats_;
  std::vector<std::pair<double, std::string>> progress_;
};

// (source, target, weight) in the client's ids, sorted.
std::vector<std::tuple<NodeId, NodeId, float>> EdgesOf(const PreparedGraph& graph) {
  std::vector<std::tuple<NodeId, NodeId, float>> edges;
  const Csr& csr = graph.parts().csr;
  const Permutation& permutation = graph.parts().permutation;
  for (NodeId t = 0; t < csr.num_rows; ++t) {
    for (EdgeId e = csr.row_ptr[t]; e < csr.row_ptr[t + 1]; ++e) {
      edges.emplace_back(permutation.ToOld(csr.col[e]), permutation.ToOld(t), csr.value.empty() ? 1.0f : csr.value[e]);
    }
  }
  std::sort(edges.begin(), edges.end());
  return edges;
}

TEST_F(PrepareTest, EveryOrderKeepsTheGraph) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const EdgeList edges = testing::RandomEdges(seed, seed % 2 == 0);
    std::vector<std::tuple<NodeId, NodeId, float>> expected;
    for (int64_t e = 0; e < edges.num_edges(); ++e) {
      expected.emplace_back(edges.source[e], edges.target[e], edges.weighted() ? edges.weight[e] : 1.0f);
    }
    std::sort(expected.begin(), expected.end());
    for (const OrderKind order : KnownOrders()) {
      if (!IsAvailable(order)) continue;
      const auto upload = Prepare(Source(edges, order));
      ASSERT_TRUE(upload.ok()) << upload.status();
      EXPECT_EQ(EdgesOf(*upload->graph), expected);
      EXPECT_EQ(upload->features, nullptr);
    }
  }
}

// Row e of edge_attr says which edge it belongs to.
TEST_F(PrepareTest, FeaturesStayWithTheirEdgesInEveryOrder) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const EdgeList edges = testing::RandomEdges(seed, seed % 2 == 0);
    std::vector<float> features;
    for (int64_t e = 0; e < edges.num_edges(); ++e) features.insert(features.end(), {static_cast<float>(e), 0.5f});
    for (const OrderKind order : KnownOrders()) {
      if (!IsAvailable(order)) continue;
      GraphSource source = Source(edges, order);
      source.edge_attr = FloatTensor({edges.num_edges(), 2}, features);
      const auto upload = Prepare(std::move(source));
      ASSERT_TRUE(upload.ok()) << upload.status();
      const PreparedGraph::Parts& parts = upload->graph->parts();
      EXPECT_EQ(upload->graph->edge_feature_width(), 2);
      ASSERT_EQ(parts.edge_attr.size(), 2 * edges.num_edges());
      std::vector<int> met(edges.num_edges(), 0);
      float before = -1;
      for (NodeId t = 0; t < parts.csr.num_rows; ++t) {
        for (EdgeId k = parts.csr.row_ptr[t]; k < parts.csr.row_ptr[t + 1]; ++k) {
          const auto e = static_cast<int64_t>(parts.edge_attr[2 * k]);
          EXPECT_EQ(parts.permutation.ToOld(t), edges.target[e]);
          EXPECT_EQ(parts.permutation.ToOld(parts.csr.col[k]), edges.source[e]);
          EXPECT_EQ(edges.weighted() ? parts.csr.value[k] : 1.0f, edges.weighted() ? edges.weight[e] : 1.0f);
          // Duplicates keep their order.
          const bool again = k > parts.csr.row_ptr[t] && parts.csr.col[k] == parts.csr.col[k - 1];
          EXPECT_TRUE(!again || parts.edge_attr[2 * k] > before);
          before = parts.edge_attr[2 * k];
          ++met[e];
        }
      }
      EXPECT_EQ(met, std::vector<int>(edges.num_edges(), 1));
    }
  }
}

TEST_F(PrepareTest, FillsTheParts) {
  const EdgeList edges = ShuffleIds(GridGraph(60), 4);
  const auto upload = Prepare(Source(edges, OrderKind::kAuto));
  ASSERT_TRUE(upload.ok()) << upload.status();
  const PreparedGraph::Parts& parts = upload->graph->parts();
  EXPECT_EQ(parts.name, "g");
  EXPECT_EQ(parts.version, 7);
  EXPECT_EQ(parts.numerics_revision, NumericsRevision(parts.order));
  EXPECT_EQ(parts.requested_order, OrderKind::kAuto);
  EXPECT_TRUE(parts.order == OrderKind::kRcm || parts.order == OrderKind::kCommunity);
  EXPECT_THAT(parts.order_reason, HasSubstr("rcm"));
  EXPECT_EQ(parts.create_time, WallTime(std::chrono::hours(24)));
  EXPECT_TRUE(parts.segments.empty());
  // Locality in the client's ids and in execution order; the rest does not depend on the numbering.
  const Csr as_sent = BuildCsrByTarget(edges);
  EXPECT_EQ(parts.profile.before.mean_span, ProfileLocality(as_sent).mean_span);
  EXPECT_EQ(parts.profile.after.mean_span, ProfileLocality(parts.csr).mean_span);
  EXPECT_LT(parts.profile.after.mean_span, parts.profile.before.mean_span / 10);
  EXPECT_EQ(parts.profile.degree_quantiles, ProfileGraph(as_sent).degree_quantiles);
  EXPECT_TRUE(parts.profile.symmetric);
  EXPECT_EQ(parts.profile.caches.l2_bytes, kSmallCaches.l2_bytes);
  EXPECT_GT(parts.profile.after.reuse[2].l2, parts.profile.before.reuse[2].l2);
  // auto looked at communities.
  EXPECT_TRUE(parts.profile.communities.known);
  const Communities communities = FindCommunities(as_sent);
  EXPECT_EQ(parts.profile.communities.count, communities.count);
  EXPECT_EQ(parts.profile.communities.modularity, communities.modularity);
  EXPECT_EQ(parts.profile.communities.inside, ProfileCommunities(as_sent, communities).inside);
  EXPECT_EQ(parts.profile.before.inside_window_and_community,
            InsideWindowAndCommunity(as_sent, kLocalityWindow, communities.of_node));
  EXPECT_GT(parts.profile.after.inside_window_and_community, parts.profile.before.inside_window_and_community);
  EXPECT_LE(parts.profile.after.inside_window_and_community, parts.profile.communities.inside);
}

TEST_F(PrepareTest, ProfilesWhatKeepsItsOrderOnce) {
  const EdgeList edges = ShuffleIds(GridGraph(30), 4);
  const auto upload = Prepare(Source(edges, OrderKind::kNone));
  ASSERT_TRUE(upload.ok()) << upload.status();
  const GraphProfile& profile = upload->graph->parts().profile;
  EXPECT_EQ(profile.before.mean_span, profile.after.mean_span);
  EXPECT_EQ(profile.before.tile_density, profile.after.tile_density);
  EXPECT_FALSE(profile.communities.known);  // nobody looked for them
  EXPECT_EQ(profile.communities.count, 0);
}

// What kernels with layouts cut their blocks at.
TEST_F(PrepareTest, PartsAndCommunitiesAreBlocksOfTheirOrders) {
  const EdgeList edges = ShuffleIds(testing::PlantedGraph(3, kBlockNodes, 4, 1, 5), 4);
  for (const OrderKind order : KnownOrders()) {
    if (!IsAvailable(order) || order == OrderKind::kAuto) continue;
    const auto upload = Prepare(Source(edges, order));
    ASSERT_TRUE(upload.ok()) << upload.status();
    const std::vector<int64_t>& blocks = upload->graph->parts().blocks;
    if (order != OrderKind::kCommunity && order != OrderKind::kMetis) {
      EXPECT_TRUE(blocks.empty()) << ToString(order);
      continue;
    }
    ASSERT_GE(blocks.size(), 4u) << ToString(order);
    EXPECT_EQ(blocks.front(), 0);
    EXPECT_EQ(blocks.back(), edges.num_nodes);
    EXPECT_TRUE(std::is_sorted(blocks.begin(), blocks.end()));
  }
}

TEST_F(PrepareTest, TimesAndTellsTheStages) {
  const auto upload = Prepare(Source(testing::MakeEdges(3, {{0, 1}}), OrderKind::kNone));
  ASSERT_TRUE(upload.ok());
  const std::vector<std::pair<std::string, double>> expected = {{"assemble", 1}, {"validate", 2}, {"csr", 3},
                                                                {"renumber", 4}, {"profile", 5},  {"publish", 6}};
  EXPECT_EQ(stats_.stages, expected);
  std::vector<std::pair<std::string, double>> kept;
  for (const StageTime& time : upload->graph->parts().stages) kept.emplace_back(time.stage, time.seconds);
  EXPECT_EQ(kept, expected);
  const std::vector<std::pair<double, std::string>> told = {{1 / 6.0, "validate"}, {2 / 6.0, "csr"},
                                                            {3 / 6.0, "renumber"}, {4 / 6.0, "profile"},
                                                            {5 / 6.0, "publish"},  {1.0, ""}};
  EXPECT_EQ(progress_, told);
}

TEST_F(PrepareTest, SaysAfterHowManyRequestsRenumberingPaysOff) {
  const EdgeList edges = ShuffleIds(GridGraph(60), 4);
  ASSERT_EQ(edges.num_edges(), 4 * 60 * 59);
  for (const OrderKind order : {OrderKind::kAuto, OrderKind::kRcm}) {
    SteppingClock clock;  // the fourth stage takes 4 s
    PrepareContext context = {device_.get(), &clock, &stats_, {}};
    context.choose.caches = kSmallCaches;
    context.choose.measure = [](const Csr&, std::span<const Permutation* const> orders) {
      std::vector<OrderTime> times(orders.size(), {1e-9, 0.25, 0.01});
      times[0] = {4e-9, 1.0, 0.01};
      return StatusOr<std::vector<OrderTime>>(times);
    };
    const auto upload = PrepareGraph(Source(edges, order), 7, context);
    ASSERT_TRUE(upload.ok()) << upload.status();
    // 3 ns for each of 14,160 edges: 42.48 us in a sum.
    const std::string text = "; renumbering took 4.000 s and pays off after 94162 such sums over all nodes, 47081 ";
    EXPECT_EQ(upload->graph->parts().order_reason.find(text) != std::string::npos, order == OrderKind::kAuto)
        << upload->graph->parts().order_reason;
  }
}

// However often it is asked before it hears that nobody waits, it ends soon after, with nothing but a status.
TEST_F(PrepareTest, EndsWhenItIsGivenUp) {
  const EdgeList edges = ShuffleIds(GridGraph(40), 2);
  for (const OrderKind order : {OrderKind::kNone, OrderKind::kRcm, OrderKind::kCommunity, OrderKind::kAuto}) {
    int asked_in_all = 0;
    for (int patience = 0;; ++patience) {
      int asked = 0;
      PrepareContext context = {device_.get(), &clock_, &stats_, {}};
      context.choose.caches = kSmallCaches;
      context.choose.given_up = [&] { return asked++ >= patience; };
      const auto upload = PrepareGraph(Source(edges, order), 7, context);
      asked_in_all = asked;
      if (asked <= patience) {
        EXPECT_TRUE(upload.ok()) << upload.status();
        break;
      }
      EXPECT_EQ(upload.status().code(), StatusCode::kCancelled) << ToString(order) << " after " << patience;
      EXPECT_LE(asked - patience, 12) << ToString(order) << " went on after " << patience;
    }
    EXPECT_GE(asked_in_all, 7) << ToString(order);  // before each stage, and in `renumber`
  }
}

TEST_F(PrepareTest, BringsFeaturesIntoExecutionOrder) {
  const EdgeList edges = ShuffleIds(GridGraph(5), 2);
  std::vector<float> x(50);
  for (int i = 0; i < 50; ++i) x[i] = static_cast<float>(i);
  for (const OrderKind order : {OrderKind::kNone, OrderKind::kRcm}) {
    GraphSource source = Source(edges, order);
    source.x = FloatTensor({25, 2}, x);
    const auto upload = Prepare(std::move(source));
    ASSERT_TRUE(upload.ok()) << upload.status();
    ASSERT_NE(upload->features, nullptr);
    const Permutation& permutation = upload->graph->parts().permutation;
    for (NodeId v = 0; v < 25; ++v) {
      EXPECT_EQ(upload->features->dense().row(permutation.ToNew(v))[1], x[2 * v + 1]);
    }
    const HostTensor later = FloatTensor({25, 2}, x);
    FeatureTensors tensors;
    tensors.dense = later.view();
    const auto same = PrepareFeatures(tensors, *upload->graph, *device_);
    ASSERT_TRUE(same.ok());
    for (NodeId v = 0; v < 25; ++v) EXPECT_EQ((*same)->dense().row(v)[0], upload->features->dense().row(v)[0]);
  }
}

TEST_F(PrepareTest, TakesSparseFeatures) {
  GraphSource source =
      Source(testing::MakeEdges(3, {{0, 2}, {1, 2}, {0, 2}}), OrderKind::kDegree);  // node 2 comes first
  source.x_indptr = Int64Tensor({4}, {0, 1, 1, 2});
  source.x_indices = Int32Tensor({2}, {4, 0});
  source.x_values = FloatTensor({2}, {1.5f, 2.5f});
  source.feature_count = 5;
  const auto upload = Prepare(std::move(source));
  ASSERT_TRUE(upload.ok()) << upload.status();
  ASSERT_TRUE(upload->features->sparse());
  const CsrView view = upload->features->csr();
  EXPECT_EQ(view.cols, 5);
  EXPECT_EQ(view.row_ptr[1], 1);
  EXPECT_EQ(view.col[0], 0);
  EXPECT_EQ(view.value[0], 2.5f);
}

TEST_F(PrepareTest, AFaultEndsItThere) {
  GraphSource source = Source(testing::MakeEdges(3, {{0, 3}}), OrderKind::kAuto);
  const Status bad_edge = Prepare(source).status();
  EXPECT_EQ(bad_edge.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bad_edge.message()), HasSubstr("edge_index[1, 0] is 3; ids must be within 0..2"));
  EXPECT_TRUE(progress_.empty());
  EXPECT_EQ(stats_.stages.size(), 1);

  source = Source(testing::MakeEdges(3, {{0, 1}}), OrderKind::kAuto);
  source.x = FloatTensor({2, 1}, {1, 2});
  const Status bad_features = Prepare(source).status();
  EXPECT_EQ(bad_features.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bad_features.message()), HasSubstr("x has 2 rows, but 3 are needed"));

  source = Source(testing::MakeEdges(3, {{0, 1}}), OrderKind::kAuto);
  source.x_values = FloatTensor({1}, {1});
  EXPECT_THAT(std::string(Prepare(source).status().message()), HasSubstr("some of these are missing"));
  EXPECT_EQ(device_->allocated_bytes(), 0);
}

TEST_F(PrepareTest, SameUploadSameResult) {
  const EdgeList edges = RmatGraph(10, 8000, 6);
  const auto a = Prepare(Source(edges, OrderKind::kRcm)), b = Prepare(Source(edges, OrderKind::kRcm));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->graph->parts().csr.col, b->graph->parts().csr.col);
  EXPECT_EQ(a->graph->parts().permutation.new_of_old(), b->graph->parts().permutation.new_of_old());
}

}  // namespace
}  // namespace vicinal

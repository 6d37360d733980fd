// SPDX-License-Identifier: Apache-2.0
// Receptive fields against a search with sets: which nodes, which edges in which order, what they cost, and that the
// search stops early and asks for its memory first.
#include "engine/plan/receptive_field/receptive_field.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/graph/adjacency.h"
#include "tests/engine/plan/model_maker.h"
#include "tests/engine/plan/receptive_field/receptive_field_testing.h"

namespace vicinal::testing {
namespace {

Csr Derive(const Csr& graph, SelfLoops loops, EdgeWeighting weighting) {
  AdjacencySpec spec;
  spec.loops = loops;
  spec.weighting = weighting;
  return *BuildAdjacency(graph, spec);
}

class ReceptiveFieldFinderTest : public ::testing::Test {
 protected:
  // Three levels over two adjacencies: the first level reads one of them, the second both.
  void Make(int64_t nodes, int64_t edges, uint32_t seed) {
    random_.seed(seed);
    const Csr graph = BuildCsrByTarget(RandomEdges(nodes, edges, false, random_));
    plain_ = Derive(graph, SelfLoops::kAsSent, EdgeWeighting::kNone);
    normalised_ = Derive(graph, SelfLoops::kAddRemaining, EdgeWeighting::kGcnOnes);
    shape_ = ReceptiveFieldShape();
    shape_.num_nodes = nodes;
    shape_.adjacencies = {plain_.view(), normalised_.view()};
    shape_.levels = {{2.0, {{1, 0.5}}}, {3.0, {{0, 1.5}, {1, 0.25}}}, {7.0, {}}};
    shape_.node_cost = 4.0;
    permutation_ = Permutation::Identity(nodes);
  }

  std::vector<int64_t> AnyIds(size_t count) {
    std::vector<int64_t> ids;
    for (size_t i = 0; i < count; ++i) ids.push_back(static_cast<int64_t>(random_() % shape_.num_nodes));
    return ids;
  }

  std::vector<NodeId> RowsOf(const std::vector<int64_t>& ids) const {
    std::vector<NodeId> rows;
    for (const int64_t id : ids) {
      const NodeId node = static_cast<NodeId>(id);
      rows.push_back(permutation_.is_identity() ? node : permutation_.ToNew(node));
    }
    return rows;
  }

  // Compares the field found last with the one by sets.
  void ExpectField(const ReceptiveFieldFinder& finder, const std::vector<int64_t>& ids) {
    const std::vector<NodeId> asked = RowsOf(ids);
    const std::vector<std::set<NodeId>> expected = ReceptiveFieldBySets(shape_, asked);
    for (size_t depth = 0; depth < expected.size(); ++depth) {
      const int64_t rows = finder.rows(static_cast<int>(depth));
      EXPECT_EQ(std::set<NodeId>(finder.nodes(), finder.nodes() + rows), expected[depth]) << "depth " << depth;
      EXPECT_EQ(rows, static_cast<int64_t>(expected[depth].size())) << "each once";
    }
    EXPECT_EQ(finder.num_nodes(), static_cast<int64_t>(expected.back().size()));
    for (const NodeId node : asked) {
      const int64_t row = finder.RowOf(node);
      ASSERT_LT(row, finder.rows(0));
      EXPECT_EQ(finder.nodes()[row], node);
    }
    for (size_t depth = 0; depth + 1 < expected.size(); ++depth) {
      for (const ReceptiveFieldShape::Edges& edges : shape_.levels[depth].edges) {
        ExpectEdges(finder, finder.Adjacency(edges.adjacency, static_cast<int>(depth)),
                    shape_.adjacencies[edges.adjacency].csr, static_cast<int>(depth));
      }
    }
  }

  // `local` has the rows of `full`, edge for edge, in the field's numbers.
  static void ExpectEdges(const ReceptiveFieldFinder& finder, const CsrView& local, const CsrView& full, int depth) {
    ASSERT_EQ(local.rows, finder.rows(depth));
    ASSERT_EQ(local.cols, finder.rows(depth + 1));
    ASSERT_EQ(local.nnz, local.row_ptr[local.rows]);
    ASSERT_EQ(local.value != nullptr, full.value != nullptr);
    for (int64_t row = 0; row < local.rows; ++row) {
      const NodeId node = finder.nodes()[row];
      const int64_t begin = full.row_ptr[node], degree = full.row_ptr[node + 1] - begin;
      ASSERT_EQ(local.row_ptr[row + 1] - local.row_ptr[row], degree);
      for (int64_t e = 0; e < degree; ++e) {
        const int32_t source = local.col[local.row_ptr[row] + e];
        ASSERT_LT(source, local.cols);
        ASSERT_EQ(finder.nodes()[source], full.col[begin + e]);
        if (full.value != nullptr) {
          ASSERT_EQ(local.value[local.row_ptr[row] + e], full.value[begin + e]);
        }
      }
    }
  }

  // What the field of `ids` costs, from its definition.
  double CostBySets(const std::vector<int64_t>& ids, int num_threads) const {
    const std::vector<std::set<NodeId>> levels = ReceptiveFieldBySets(shape_, RowsOf(ids));
    double cost =
        static_cast<double>(levels.back().size()) * (shape_.node_cost + ReceptiveFieldFinder::kNodeNs * num_threads);
    std::vector<std::set<NodeId>> followed(shape_.adjacencies.size());
    for (size_t depth = 0; depth < levels.size(); ++depth) {
      cost += static_cast<double>(levels[depth].size()) * shape_.levels[depth].row_cost;
      for (const ReceptiveFieldShape::Edges& edges : shape_.levels[depth].edges) {
        const CsrView& csr = shape_.adjacencies[edges.adjacency].csr;
        for (const NodeId node : levels[depth]) {
          const double degree = static_cast<double>(csr.row_ptr[node + 1] - csr.row_ptr[node]);
          cost += degree * edges.cost;
          if (followed[edges.adjacency].insert(node).second)
            cost += degree * ReceptiveFieldFinder::kEdgeNs * num_threads;
        }
      }
    }
    return cost;
  }

  std::mt19937 random_;
  Csr plain_, normalised_;
  ReceptiveFieldShape shape_;
  Permutation permutation_;
  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  TestAccount account_;
};

TEST_F(ReceptiveFieldFinderTest, FindsWhatASearchWithSetsFinds) {
  ReceptiveFieldFinder finder(device_.get(), account_.purpose());
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Make(1 + seed * 7 % 150, 1 + seed * 13 % 400, seed);
    if (seed % 3 == 0) {
      std::vector<NodeId> order(shape_.num_nodes);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random_);
      permutation_ = Permutation::FromNewOfOld(order);
    }
    // One after the other in the same memory, which is never cleared.
    for (const size_t count : {1, 1, 2, 5, 40, 400}) {
      const std::vector<int64_t> ids = AnyIds(count);
      const auto found = finder.Find(shape_, ids, permutation_, ReceptiveFieldFinder::kNoLimit, 2);
      ASSERT_TRUE(found.ok() && *found) << found.status();
      ExpectField(finder, ids);
    }
  }
}

// What the host keeps of a graph whose adjacencies a device derived serves as well: rows with no loop, one or several.
TEST_F(ReceptiveFieldFinderTest, TheGraphAsSentStandsForItsLoopedAdjacency) {
  ReceptiveFieldFinder finder(device_.get(), account_.purpose()), derived(device_.get(), account_.purpose());
  for (uint32_t seed = 0; seed < 30; ++seed) {
    Make(1 + seed * 7 % 150, 1 + seed * 13 % 400, seed);
    ReceptiveFieldShape sent = shape_;
    CsrView looped = normalised_.view();
    looped.value = nullptr;
    shape_.adjacencies[1] = looped;
    sent.adjacencies[1] = HostEdges(plain_.view(), true);
    for (int64_t node = 0; node < shape_.num_nodes; ++node) {
      const NodeId row = static_cast<NodeId>(node);
      ASSERT_EQ(sent.adjacencies[1].Degree(row), shape_.adjacencies[1].Degree(row)) << node;
    }
    const std::vector<int64_t> ids = AnyIds(1 + seed % 7);
    ASSERT_TRUE(*finder.Find(sent, ids, permutation_, ReceptiveFieldFinder::kNoLimit, 1));
    ExpectField(finder, ids);
    ASSERT_TRUE(*derived.Find(shape_, ids, permutation_, ReceptiveFieldFinder::kNoLimit, 1));
    const CsrView deepest = derived.Adjacency(1), got = finder.Adjacency(1);
    EXPECT_EQ(got.rows, finder.rows(1));
    EXPECT_EQ(got.nnz, deepest.nnz);
    EXPECT_TRUE(std::equal(got.col, got.col + got.nnz, deepest.col));
  }
}

// Steps that end with their longest row pay for it at every level that has it; sending is paid once.
TEST_F(ReceptiveFieldFinderTest, CountsWhatEveryRunPaysEdgesSentAndTheLongestRow) {
  ReceptiveFieldFinder finder(device_.get(), account_.purpose());
  Make(200, 700, 9);
  const std::vector<int64_t> ids = AnyIds(10);
  double cost = CostBySets(ids, 1);
  shape_.run_cost = 500.0;
  shape_.edge_cost = 2.0;
  shape_.levels[0].edges[0].longest_cost = 3.0;
  shape_.levels[1].edges[0].longest_cost = 5.0;
  const std::vector<std::set<NodeId>> levels = ReceptiveFieldBySets(shape_, RowsOf(ids));
  const auto longest = [&](int adjacency, int depth) {
    int64_t most = 0;
    for (const NodeId node : levels[depth]) most = std::max(most, shape_.adjacencies[adjacency].Degree(node));
    return static_cast<double>(most);
  };
  cost += 500.0 + 3.0 * longest(1, 0) + 5.0 * longest(0, 1);
  for (const int adjacency : {0, 1}) {
    for (const NodeId node : levels[1]) cost += 2.0 * static_cast<double>(shape_.adjacencies[adjacency].Degree(node));
  }
  EXPECT_FALSE(*finder.Find(shape_, ids, permutation_, cost * 0.9999, 1));
  EXPECT_TRUE(*finder.Find(shape_, ids, permutation_, cost * 1.0001, 1));
}

TEST_F(ReceptiveFieldFinderTest, IsolatedNodesAreTheirOwnField) {
  Make(50, 100, 3);
  shape_.levels[0].edges[0].adjacency = 0;
  shape_.levels[1].edges.resize(1);  // no self-loops anywhere
  ReceptiveFieldFinder finder(device_.get(), account_.purpose());
  const std::vector<int64_t> ids = {49, 48, 49};  // the last fifth is isolated
  ASSERT_TRUE(*finder.Find(shape_, ids, permutation_, ReceptiveFieldFinder::kNoLimit, 1));
  EXPECT_EQ(finder.num_nodes(), 2);
  EXPECT_EQ(finder.Adjacency(0, 1).nnz, 0);
  ExpectField(finder, ids);
}

TEST_F(ReceptiveFieldFinderTest, StepsOnRowsAloneNeedNoEdges) {
  Make(30, 100, 4);
  shape_.levels = {{5.0, {}}};
  ReceptiveFieldFinder finder(device_.get(), account_.purpose());
  ASSERT_TRUE(*finder.Find(shape_, {3, 9, 3}, permutation_, ReceptiveFieldFinder::kNoLimit, 1));
  EXPECT_EQ(finder.num_nodes(), 2);
  EXPECT_EQ(finder.rows(0), 2);
}

TEST_F(ReceptiveFieldFinderTest, DecidesByTheCostOfTheWholeField) {
  ReceptiveFieldFinder finder(device_.get(), account_.purpose());
  for (uint32_t seed = 100; seed < 140; ++seed) {
    Make(200, 100 + seed * 17 % 600, seed);
    for (const int threads : {1, 4}) {
      const std::vector<int64_t> ids = AnyIds(1 + random_() % 20);
      const double cost = CostBySets(ids, threads);
      for (const double share : {0.01, 0.5, 0.9, 0.999, 1.001, 1.5}) {
        const auto found = finder.Find(shape_, ids, permutation_, cost * share, threads);
        ASSERT_TRUE(found.ok()) << found.status();
        EXPECT_EQ(*found, share > 1) << "seed " << seed << ", share " << share;
        if (*found) ExpectField(finder, ids);
      }
    }
  }
}

TEST_F(ReceptiveFieldFinderTest, DoesNotFollowEdgesThatCostTooMuch) {
  constexpr int64_t kSources = 200'000;
  EdgeList star;
  star.num_nodes = kSources + 1;
  for (int64_t s = 1; s <= kSources; ++s) {
    star.source.push_back(static_cast<NodeId>(s));
    star.target.push_back(0);
  }
  plain_ = BuildCsrByTarget(star);
  shape_.num_nodes = star.num_nodes;
  shape_.adjacencies = {plain_.view()};
  shape_.levels = {{1.0, {{0, 1.0}}}, {1.0, {}}};
  permutation_ = Permutation::Identity(star.num_nodes);
  ReceptiveFieldFinder finder(device_.get(), account_.purpose());
  ASSERT_FALSE(*finder.Find(shape_, {0}, permutation_, 1000.0, 1));
  // Its number per node, and hardly more: no room was made for the hub's edges.
  EXPECT_LT(account_.held(), star.num_nodes * static_cast<int64_t>(sizeof(int32_t)) + 1000);
  ASSERT_TRUE(*finder.Find(shape_, {7}, permutation_, 1000.0, 1));
  EXPECT_EQ(finder.num_nodes(), 1);
}

TEST_F(ReceptiveFieldFinderTest, AsksForMemoryBeforeItTakesIt) {
  Make(300, 3000, 5);
  const std::vector<int64_t> ids = AnyIds(20);
  {
    ReceptiveFieldFinder finder(device_.get(), account_.purpose());
    ASSERT_TRUE(*finder.Find(shape_, ids, permutation_, ReceptiveFieldFinder::kNoLimit, 1));
    EXPECT_EQ(account_.held(), device_->allocated_bytes());
    const int64_t held = account_.held();
    ASSERT_TRUE(*finder.Find(shape_, {1}, permutation_, ReceptiveFieldFinder::kNoLimit, 1));
    EXPECT_EQ(account_.held(), held) << "what is there serves smaller fields";
  }
  EXPECT_EQ(account_.held(), 0);
  EXPECT_EQ(device_->allocated_bytes(), 0);
  ReceptiveFieldFinder finder(device_.get(), account_.purpose());
  int64_t most = 0;
  for (;; most += 500) {
    account_.Allow(most);
    const auto found = finder.Find(shape_, ids, permutation_, ReceptiveFieldFinder::kNoLimit, 1);
    EXPECT_LE(account_.held(), most);
    EXPECT_EQ(account_.held(), device_->allocated_bytes());
    if (found.ok()) break;
    EXPECT_EQ(found.status().code(), StatusCode::kResourceExhausted);
  }
  ExpectField(finder, ids);
}

}  // namespace
}  // namespace vicinal::testing

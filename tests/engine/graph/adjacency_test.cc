// SPDX-License-Identifier: Apache-2.0
// Adjacencies against PyG's rules written down again over the edge list: loops collected as gcn_norm and GATConv do,
// degrees and weights in double. Runs in the numbering as sent and in a shuffled one.
#include "engine/graph/adjacency.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/graph/graph_testing.h"

namespace vicinal {
namespace {

using testing::MakeEdges;
using testing::RandomEdges;

struct Edge {
  NodeId source, target;
  double weight;
};

// The edges that a layer propagates over, in any order. `ones`: the layer is not given the graph's weights.
std::vector<Edge> ExpectedEdges(EdgeList sent, const AdjacencySpec& spec) {
  if (spec.transposed) std::swap(sent.source, sent.target);
  // (A graph without edges lacks no weights: there, kSent is the layer's word that it is given them.)
  const bool without = !sent.weighted() && spec.weighting != EdgeWeighting::kSent;
  const bool ones = without || !ReadsEdgeWeights(spec.weighting);
  std::vector<double> loop(sent.num_nodes, ones ? 1.0 : spec.loop_weight);
  std::vector<Edge> edges;
  for (int64_t e = 0; e < sent.num_edges(); ++e) {
    const double weight = ones ? 1.0 : sent.weight[e];
    const bool is_loop = sent.source[e] == sent.target[e];
    if (is_loop && spec.loops == SelfLoops::kAddRemaining) loop[sent.source[e]] = weight;
    if (!is_loop || spec.loops == SelfLoops::kAsSent) edges.push_back({sent.source[e], sent.target[e], weight});
  }
  if (spec.loops != SelfLoops::kAsSent) {
    for (NodeId v = 0; v < sent.num_nodes; ++v) edges.push_back({v, v, loop[v]});
  }
  if (spec.weighting == EdgeWeighting::kNone || spec.weighting == EdgeWeighting::kSent) return edges;
  std::vector<double> degree(sent.num_nodes, 0.0);
  if (spec.weighting == EdgeWeighting::kMeanOnes) {  // ClusterGCNConv
    for (const Edge& edge : edges) ++degree[edge.target];
    for (Edge& edge : edges) {
      const double share = 1.0 / degree[edge.target];
      edge.weight = edge.source == edge.target ? share + (spec.loop_weight - 1.0) * share : share;
    }
    return edges;
  }
  if (spec.weighting != EdgeWeighting::kGcnSent && spec.weighting != EdgeWeighting::kGcnOnes) {  // get_laplacian
    for (const Edge& edge : edges) degree[edge.source] += edge.source == edge.target ? 0.0 : edge.weight;
    const auto power = [&](NodeId v, double exponent) {
      return degree[v] == 0.0 ? 0.0 : std::pow(degree[v], exponent);
    };
    const bool symmetric =
        spec.weighting == EdgeWeighting::kSourceSymSent || spec.weighting == EdgeWeighting::kSourceSymOnes;
    for (Edge& edge : edges) {
      if (edge.source == edge.target) edge.weight = 0.0;
      edge.weight *= symmetric ? power(edge.source, -0.5) * power(edge.target, -0.5) : power(edge.source, -1.0);
    }
    return edges;
  }
  for (const Edge& edge : edges) degree[edge.target] += edge.weight;
  const auto root = [&](NodeId v) { return degree[v] == 0.0 ? 0.0 : std::pow(degree[v], -0.5); };
  for (Edge& edge : edges) edge.weight *= root(edge.source) * root(edge.target);
  return edges;
}

// Sum of the weights, and number, of the edges between each pair.
struct Dense {
  explicit Dense(int64_t num_nodes) : n(num_nodes), weight(n * n, 0.0), count(n * n, 0) {}
  void Add(NodeId target, NodeId source, double value) {
    weight[target * n + source] += value;
    ++count[target * n + source];
  }
  int64_t n;
  std::vector<double> weight;
  std::vector<int> count;
};

void ExpectEqual(const Csr& csr, const std::vector<Edge>& edges, const std::vector<NodeId>& new_of_old) {
  Dense expected(csr.num_rows), actual(csr.num_rows);
  for (const Edge& edge : edges) expected.Add(new_of_old[edge.target], new_of_old[edge.source], edge.weight);
  for (int64_t t = 0; t < csr.num_rows; ++t) {
    for (EdgeId e = csr.row_ptr[t]; e < csr.row_ptr[t + 1]; ++e) {
      if (e > csr.row_ptr[t]) {
        EXPECT_LE(csr.col[e - 1], csr.col[e]);
      }
      actual.Add(static_cast<NodeId>(t), csr.col[e], csr.value.empty() ? 1.0 : csr.value[e]);
    }
  }
  EXPECT_EQ(actual.count, expected.count);
  for (size_t i = 0; i < actual.weight.size(); ++i) {
    // Each weight was rounded once to float32; at most a few duplicates add up.
    EXPECT_NEAR(actual.weight[i], expected.weight[i], 1e-7 * std::abs(expected.weight[i])) << "pair " << i;
  }
}

std::vector<AdjacencySpec> AllSpecs() {
  std::vector<AdjacencySpec> specs;
  for (const SelfLoops loops : {SelfLoops::kAsSent, SelfLoops::kAddRemaining, SelfLoops::kReplace}) {
    for (const EdgeWeighting weighting :
         {EdgeWeighting::kNone, EdgeWeighting::kSent, EdgeWeighting::kGcnSent, EdgeWeighting::kGcnOnes,
          EdgeWeighting::kMeanOnes, EdgeWeighting::kSourceSymSent, EdgeWeighting::kSourceSymOnes,
          EdgeWeighting::kSourceMeanSent, EdgeWeighting::kSourceMeanOnes}) {
      for (const float loop_weight : {1.0f, 2.0f}) {
        for (const bool transposed : {false, true}) specs.push_back({loops, loop_weight, weighting, transposed});
      }
    }
  }
  return specs;
}

TEST(Adjacency, IsPyGsInEveryNumbering) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const bool weighted = seed % 2 == 0;
    const EdgeList sent = RandomEdges(seed, weighted);
    const std::vector<NodeId> name = testing::RandomPermutation(sent.num_nodes, seed);
    const Csr renumbered = RenumberCsr(BuildCsrByTarget(sent), name);
    for (const AdjacencySpec& spec : AllSpecs()) {
      SCOPED_TRACE(std::string(ToString(spec.loops)) + " " + std::string(ToString(spec.weighting)) + " " +
                   std::to_string(seed));
      if (!weighted && spec.weighting == EdgeWeighting::kSent) continue;
      const auto adjacency = BuildAdjacency(renumbered, spec);
      ASSERT_TRUE(adjacency.ok()) << adjacency.status();
      EXPECT_EQ(adjacency->value.empty(), spec.weighting == EdgeWeighting::kNone || adjacency->nnz() == 0);
      EXPECT_LE(adjacency->size_bytes(), AdjacencyBytesBound(sent.num_nodes, sent.num_edges()));
      const AdjacencyShape shape = ShapeOfAdjacency(renumbered, spec);
      EXPECT_EQ(shape.rows, adjacency->num_rows);
      EXPECT_EQ(shape.cols, adjacency->num_cols);
      EXPECT_EQ(shape.edges, adjacency->nnz());
      EXPECT_EQ(shape.weighted, !adjacency->value.empty());
      EXPECT_EQ(shape.bytes, adjacency->size_bytes());
      ExpectEqual(*adjacency, ExpectedEdges(sent, spec), name);
    }
  }
}

TEST(Adjacency, CanonicalSpecsGiveTheSameBits) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const bool weighted = seed % 2 == 0;
    const Csr csr = BuildCsrByTarget(RandomEdges(seed, weighted));
    for (const AdjacencySpec& spec : AllSpecs()) {
      if (!weighted && spec.weighting == EdgeWeighting::kSent) continue;
      const auto a = BuildAdjacency(csr, spec), b = BuildAdjacency(csr, CanonicalSpec(spec, weighted));
      ASSERT_TRUE(a.ok() && b.ok());
      EXPECT_EQ(a->row_ptr, b->row_ptr);
      EXPECT_EQ(a->col, b->col);
      EXPECT_EQ(a->value, b->value);
    }
  }
}

TEST(Adjacency, KeepsTheLastOfSeveralLoops) {
  // Node 1 has loops of weight 5 and then 7, with other edges between them; node 0 has none.
  const EdgeList sent = MakeEdges(2, {{1, 1}, {0, 1}, {1, 1}, {1, 0}}, {5, 2, 7, 3});
  for (const std::vector<NodeId>& name : {std::vector<NodeId>{0, 1}, std::vector<NodeId>{1, 0}}) {
    const Csr csr = RenumberCsr(BuildCsrByTarget(sent), name);
    const auto adjacency = BuildAdjacency(csr, {SelfLoops::kAddRemaining, 2.0f, EdgeWeighting::kSent});
    ASSERT_TRUE(adjacency.ok());
    ExpectEqual(*adjacency, {{0, 1, 2}, {1, 0, 3}, {0, 0, 2}, {1, 1, 7}}, name);
  }
}

TEST(Adjacency, ZeroDegreeGivesZero) {
  const Csr csr = BuildCsrByTarget(MakeEdges(3, {{0, 1}, {1, 2}}));
  const auto adjacency = BuildAdjacency(csr, {SelfLoops::kAsSent, 1.0f, EdgeWeighting::kGcnOnes});
  ASSERT_TRUE(adjacency.ok());
  EXPECT_EQ(adjacency->value, (std::vector<float>{0.0f, 1.0f}));  // node 0 has no in-edge
  const Csr cancelled = BuildCsrByTarget(MakeEdges(2, {{0, 1}, {1, 1}, {1, 0}}, {2, -2, 1}));
  const auto zero = BuildAdjacency(cancelled, {SelfLoops::kAsSent, 1.0f, EdgeWeighting::kGcnSent});
  ASSERT_TRUE(zero.ok());
  EXPECT_EQ(zero->value, (std::vector<float>{0.0f, 0.0f, 0.0f}));
}

TEST(Adjacency, RefusesWhatWouldNotBeFinite) {
  const Csr negative = BuildCsrByTarget(MakeEdges(3, {{0, 1}, {1, 2}}, {-2, 1}));
  const AdjacencySpec gcn = {SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnSent};
  const Status refused = BuildAdjacency(negative, gcn).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(refused)->reason, "NEGATIVE_DEGREE");
  EXPECT_NE(refused.message().find("node 1 weigh -1"), absl::string_view::npos) << refused;
  const std::vector<NodeId> client_ids = {7, 8, 9};
  const Status named = BuildAdjacency(negative, gcn, &client_ids).status();
  EXPECT_NE(named.message().find("node 8"), absl::string_view::npos);
  EXPECT_EQ(DetailOf(named)->metadata.at("node"), "8");
  EXPECT_TRUE(BuildAdjacency(negative, {SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSent}).ok());

  // Node 0's in-edges weigh 2^-149 in sum, after a cancellation: roots of that times a large weight leave float32.
  const float tiny = std::numeric_limits<float>::denorm_min(), large = std::numeric_limits<float>::max();
  const Csr overflowing = BuildCsrByTarget(MakeEdges(1, {{0, 0}, {0, 0}, {0, 0}}, {large, -large, tiny}));
  const Status overflow = BuildAdjacency(overflowing, {SelfLoops::kAsSent, 1.0f, EdgeWeighting::kGcnSent}).status();
  EXPECT_EQ(overflow.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(overflow)->reason, "WEIGHT_OVERFLOW");
}

TEST(Adjacency, WeightsBySourceAreNotNegative) {
  const Csr csr = BuildCsrByTarget(MakeEdges(3, {{0, 1}, {1, 2}, {2, 2}}, {1, -0.5f, -3}));
  for (const EdgeWeighting weighting : {EdgeWeighting::kSourceSymSent, EdgeWeighting::kSourceMeanSent}) {
    const std::vector<NodeId> client_ids = {7, 8, 9};
    const Status refused = BuildAdjacency(csr, {SelfLoops::kAsSent, 1.0f, weighting}, &client_ids).status();
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(DetailOf(refused)->reason, "NEGATIVE_WEIGHT");
    EXPECT_NE(refused.message().find("from node 8 to node 9 weighs -0.5"), absl::string_view::npos) << refused;
  }
  // A loop does not count, whatever it weighs.
  const Csr loop = BuildCsrByTarget(MakeEdges(2, {{0, 1}, {1, 1}}, {1, -3}));
  EXPECT_TRUE(BuildAdjacency(loop, {SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSourceSymSent}).ok());
}

TEST(Adjacency, WeightsMustBeThereWhenAskedFor) {
  const Csr csr = BuildCsrByTarget(MakeEdges(2, {{0, 1}}));
  const Status refused = BuildAdjacency(csr, {SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSent}).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(refused)->reason, "EDGE_WEIGHT_MISSING");
  // Without edges, no edge lacks one.
  const Csr empty = BuildCsrByTarget(MakeEdges(2, {}));
  EXPECT_TRUE(BuildAdjacency(empty, {SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSent}).ok());
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// The profile against a count over the edge list, tiles against a map of all, reuse against simulated caches.
#include "engine/profile/graph_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/profile/host_caches.h"
#include "engine/profile/reuse.h"
#include "tests/engine/graph/graph_testing.h"
#include "tests/support/generators.h"

namespace vicinal {
namespace {

using testing::MakeEdges;
using testing::RandomEdges;

void ExpectProfile(const EdgeList& edges) {
  const GraphProfile profile = ProfileGraph(BuildCsrByTarget(edges));
  const int64_t n = edges.num_nodes, m = edges.num_edges();
  std::vector<int64_t> degrees(n, 0);
  std::vector<bool> touched(n, false);
  std::multiset<std::pair<NodeId, NodeId>> forward, backward;
  int64_t loops = 0, inside = 0;
  double span = 0.0;
  for (int64_t e = 0; e < m; ++e) {
    const NodeId s = edges.source[e], t = edges.target[e];
    ++degrees[t];
    touched[s] = touched[t] = true;
    forward.emplace(s, t);
    backward.emplace(t, s);
    loops += s == t;
    inside += std::abs(s - t) < kLocalityWindow;
    span += std::abs(s - t);
  }
  std::sort(degrees.begin(), degrees.end());
  double mean = 0.0, variance = 0.0;
  for (const int64_t d : degrees) mean += static_cast<double>(d) / n;
  for (const int64_t d : degrees) variance += (d - mean) * (d - mean) / n;
  EXPECT_EQ(profile.num_nodes, n);
  EXPECT_EQ(profile.num_edges, m);
  EXPECT_NEAR(profile.mean_degree, mean, 1e-9 * (1 + mean));
  EXPECT_NEAR(profile.degree_deviation, std::sqrt(variance), 1e-9 * (1 + std::sqrt(variance)));
  EXPECT_EQ(profile.max_degree, degrees.back());
  const double quantiles[] = {0.5, 0.9, 0.99};
  for (int i = 0; i < 3; ++i) {
    // The smallest degree that at least this share of the nodes does not exceed.
    const int64_t found = profile.degree_quantiles[i];
    EXPECT_GE(std::upper_bound(degrees.begin(), degrees.end(), found) - degrees.begin(), quantiles[i] * n);
    EXPECT_LT(std::lower_bound(degrees.begin(), degrees.end(), found) - degrees.begin(), quantiles[i] * n);
    EXPECT_TRUE(std::binary_search(degrees.begin(), degrees.end(), found));
  }
  EXPECT_EQ(profile.isolated_nodes, std::count(touched.begin(), touched.end(), false));
  EXPECT_EQ(profile.self_loops, loops);
  const std::set<std::pair<NodeId, NodeId>> distinct(forward.begin(), forward.end());
  EXPECT_EQ(profile.duplicate_edges, m - distinct.size());
  EXPECT_EQ(profile.symmetric, forward == backward);
  EXPECT_EQ(profile.window, kLocalityWindow);
  EXPECT_DOUBLE_EQ(profile.before.inside_window, m == 0 ? 0.0 : static_cast<double>(inside) / m);
  EXPECT_DOUBLE_EQ(profile.before.mean_span, m == 0 ? 0.0 : span / m);
}

TEST(GraphProfile, CountsSmallRandomGraphs) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    ExpectProfile(RandomEdges(seed, false));
  }
}

TEST(GraphProfile, CountsLargerOnes) {
  ExpectProfile(UniformGraph(5000, 20000, 1));
  ExpectProfile(RmatGraph(12, 30000, 2));
  ExpectProfile(GridGraph(60));
  ExpectProfile(MakeEdges(1, {}));
  ExpectProfile(MakeEdges(3000, {{0, 2999}}));
}

ProfileOptions WindowOf(int64_t window, std::span<const NodeId> community_of = {}) {
  ProfileOptions options;
  options.window = window;
  options.community_of = community_of;
  return options;
}

TEST(LocalityProfile, WindowIsOpen) {
  const Csr csr = BuildCsrByTarget(MakeEdges(10, {{0, 0}, {0, 2}, {5, 2}, {2, 6}}));  // spans 0, 2, 3, 4
  const LocalityProfile locality = ProfileLocality(csr, WindowOf(3));
  EXPECT_DOUBLE_EQ(locality.inside_window, 0.5);
  EXPECT_DOUBLE_EQ(locality.mean_span, 9.0 / 4.0);
  EXPECT_EQ(locality.inside_window_and_community, 0.0);
}

TEST(LocalityProfile, KnowsWhatIsInTheWindowAndInACommunity) {
  const Csr csr = BuildCsrByTarget(MakeEdges(10, {{0, 1}, {0, 2}, {0, 8}, {8, 9}, {3, 4}}));
  const std::vector<NodeId> community = {0, 0, 1, 1, 1, 1, 1, 0, 0, 0};
  // {0, 1}, {8, 9} and {3, 4} are near and of one community; {0, 2} is near, {0, 8} of one community.
  EXPECT_DOUBLE_EQ(ProfileLocality(csr, WindowOf(3, community)).inside_window_and_community, 0.6);
}

// Share of edges by the density of their tile, over a map of all tiles.
DensityShares TilesByHand(const EdgeList& edges) {
  std::map<std::pair<int64_t, int64_t>, int64_t> tiles;
  const auto side = [&](int64_t at) { return std::min(edges.num_nodes - at * kDensityTile, kDensityTile); };
  for (int64_t e = 0; e < edges.num_edges(); ++e)
    ++tiles[{edges.target[e] / kDensityTile, edges.source[e] / kDensityTile}];
  DensityShares shares = {};
  for (const auto& [tile, count] : tiles) {
    const double density = static_cast<double>(count) / static_cast<double>(side(tile.first) * side(tile.second));
    size_t at = 0;
    while (at < kDensityBounds.size() && density >= kDensityBounds[at]) ++at;
    shares[at] += static_cast<double>(count) / static_cast<double>(edges.num_edges());
  }
  return shares;
}

TEST(LocalityProfile, TilesAreCounted) {
  // From nearly empty to more than full (duplicates), and a last band that is narrow.
  for (const EdgeList& edges : {UniformGraph(1000, 3000, 1), RmatGraph(11, 60000, 2), UniformGraph(300, 30000, 3),
                                UniformGraph(10, 500, 4), GridGraph(40)}) {
    const DensityShares found = ProfileLocality(BuildCsrByTarget(edges)).tile_density, expected = TilesByHand(edges);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12);
  }
}

TEST(LocalityProfile, TilesOfManyEdgesAreSampled) {
  const EdgeList edges = UniformGraph(4000, 3 * kTileSample, 5);  // 0.2 edges per pair, the same in all bands
  const DensityShares found = ProfileLocality(BuildCsrByTarget(edges)).tile_density;
  EXPECT_DOUBLE_EQ(found[4], 1.0);
}

// One cache of `rows` rows, least recently used, fully simulated: hits per gather.
double SimulateCache(const Csr& graph, const std::vector<NodeId>& row_order, int64_t rows) {
  std::list<NodeId> recent;
  std::map<NodeId, std::list<NodeId>::iterator> held;
  int64_t hits = 0;
  for (const NodeId row : row_order) {
    for (EdgeId e = graph.row_ptr[row]; e < graph.row_ptr[row + 1]; ++e) {
      const auto found = held.find(graph.col[e]);
      if (found != held.end()) {
        ++hits;
        recent.erase(found->second);
      }
      recent.push_front(graph.col[e]);
      held[graph.col[e]] = recent.begin();
      if (recent.size() <= rows) continue;
      held.erase(recent.back());
      recent.pop_back();
    }
  }
  return static_cast<double>(hits) / static_cast<double>(graph.nnz());
}

// Caches that hold fewer rows than the graph has, at every width.
constexpr CacheSizes kSmallCaches = {int64_t{1} << 14, int64_t{1} << 18};

void ExpectReuse(const EdgeList& edges, int64_t sample, double tolerance) {
  const Csr csr = BuildCsrByTarget(edges);
  std::vector<NodeId> as_is(csr.num_rows), backwards(csr.num_rows);
  for (NodeId v = 0; v < csr.num_rows; ++v) as_is[v] = backwards[csr.num_rows - 1 - v] = v;
  for (const bool reversed : {false, true}) {
    const std::vector<NodeId>& order = reversed ? backwards : as_is;
    const auto estimates = EstimateReuse(csr, reversed ? order : std::vector<NodeId>(), kSmallCaches, sample);
    for (size_t i = 0; i < kReuseWidths.size(); ++i) {
      SCOPED_TRACE(kReuseWidths[i]);
      const int64_t row_bytes = 4 * kReuseWidths[i];
      EXPECT_NEAR(estimates[i].l2, SimulateCache(csr, order, kSmallCaches.l2_bytes / row_bytes), tolerance);
      EXPECT_NEAR(estimates[i].llc, SimulateCache(csr, order, kSmallCaches.llc_bytes / row_bytes), tolerance);
    }
  }
}

TEST(ReuseEstimate, IsExactWhereAllIsSampled) {
  ExpectReuse(UniformGraph(3000, 15000, 1), 20000, 1e-12);
  ExpectReuse(GridGraph(60), 20000, 1e-12);
  ExpectReuse(RmatGraph(11, 15000, 2), 20000, 1e-12);
  ExpectReuse(MakeEdges(3, {{0, 0}, {0, 1}, {0, 1}, {2, 1}}), 100, 1e-12);
}

// Graphs whose reuse distances spread: where all are alike (a grid), a cache of just that size is a coin toss.
TEST(ReuseEstimate, IsNearWhereItIsSampled) {
  ExpectReuse(UniformGraph(8000, 50000, 1), 10000, 0.06);
  ExpectReuse(RmatGraph(13, 50000, 2), 10000, 0.12);  // few sources have many of the gathers
}

TEST(ReuseEstimate, OfOneBusySource) {
  EdgeList star;
  star.num_nodes = 50000;
  for (NodeId v = 1; v < star.num_nodes; ++v) {
    star.source.push_back(0);
    star.target.push_back(v);
  }
  for (const ReuseEstimate& estimate : EstimateReuse(BuildCsrByTarget(star), {}, {}, 1000)) {
    EXPECT_NEAR(estimate.l2, 1.0, 0.01);
    EXPECT_NEAR(estimate.llc, 1.0, 0.01);
  }
}

// A star's centre and R-MAT's hubs bring more gathers than wanted, so that the sample is halved.
TEST(GraphProfile, ThreadsDoNotShow) {
  EdgeList star;
  star.num_nodes = 40000;
  for (NodeId v = 1; v < star.num_nodes; ++v) {
    star.source.push_back(v % 3);
    star.target.push_back(v);
  }
  ThreadPool pool(3);
  for (const EdgeList& edges : {star, RmatGraph(14, 400000, 2), UniformGraph(9000, 100000, 3), GridGraph(70)}) {
    const Csr csr = BuildCsrByTarget(edges);
    ProfileOptions options;
    options.caches = kSmallCaches;
    std::vector<NodeId> community(csr.num_rows);
    for (NodeId v = 0; v < csr.num_rows; ++v) community[v] = v / 700;
    options.community_of = community;
    const GraphProfile alone = ProfileGraph(csr, options);
    options.pool = &pool;
    const GraphProfile together = ProfileGraph(csr, options);
    EXPECT_EQ(alone.self_loops, together.self_loops);
    EXPECT_EQ(alone.duplicate_edges, together.duplicate_edges);
    EXPECT_EQ(alone.isolated_nodes, together.isolated_nodes);
    EXPECT_EQ(alone.before.inside_window, together.before.inside_window);
    EXPECT_EQ(alone.before.mean_span, together.before.mean_span);
    EXPECT_EQ(alone.before.inside_window_and_community, together.before.inside_window_and_community);
    for (const int64_t sample : {int64_t{100}, int64_t{5000}, kReuseSample}) {
      const auto a = EstimateReuse(csr, {}, kSmallCaches, sample),
                 b = EstimateReuse(csr, {}, kSmallCaches, sample, &pool);
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].l2, b[i].l2);
        EXPECT_EQ(a[i].llc, b[i].llc);
      }
    }
    Communities communities;
    communities.count = (csr.num_rows + 699) / 700;
    communities.of_node = community;
    communities.sizes.assign(communities.count, 700);
    communities.sizes.back() = static_cast<NodeId>(csr.num_rows - 700 * (communities.count - 1));
    const CommunityProfile by_one = ProfileCommunities(csr, communities);
    const CommunityProfile by_three = ProfileCommunities(csr, communities, &pool);
    EXPECT_EQ(by_one.inside, by_three.inside);
    EXPECT_EQ(by_one.density, by_three.density);
  }
}

TEST(ReuseEstimate, OfNoEdges) {
  for (const ReuseEstimate& estimate : EstimateReuse(BuildCsrByTarget(MakeEdges(3, {})), {}, {})) {
    EXPECT_EQ(estimate.l2, 0.0);
    EXPECT_EQ(estimate.llc, 0.0);
  }
}

TEST(CommunityProfile, CountsWhatIsInside) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const EdgeList edges = seed % 2 == 0 ? RandomEdges(seed, false) : UniformGraph(200, 3000, seed);
    Communities communities;
    communities.count = std::min<int64_t>(edges.num_nodes, 1 + seed % 7);
    communities.modularity = 0.25;
    communities.sizes.assign(communities.count, 0);
    for (NodeId v = 0; v < edges.num_nodes; ++v) {
      communities.of_node.push_back(static_cast<NodeId>((v * 7) % communities.count));
      ++communities.sizes[communities.of_node.back()];
    }
    const CommunityProfile profile = ProfileCommunities(BuildCsrByTarget(edges), communities);
    EXPECT_TRUE(profile.known);
    EXPECT_EQ(profile.count, communities.count);
    EXPECT_EQ(profile.modularity, 0.25);
    EXPECT_NEAR(profile.mean_size * static_cast<double>(profile.count), static_cast<double>(edges.num_nodes), 1e-9);
    EXPECT_EQ(profile.max_size, *std::max_element(communities.sizes.begin(), communities.sizes.end()));
    if (edges.num_edges() == 0) continue;
    std::map<NodeId, int64_t> inside;
    for (int64_t e = 0; e < edges.num_edges(); ++e) {
      const NodeId c = communities.of_node[edges.source[e]];
      if (c == communities.of_node[edges.target[e]]) ++inside[c];
    }
    DensityShares expected = {};
    double total = 0.0;
    for (const auto& [c, count] : inside) {
      const double density = static_cast<double>(count) / std::pow(communities.sizes[c], 2);
      size_t at = 0;
      while (at < kDensityBounds.size() && density >= kDensityBounds[at]) ++at;
      expected[at] += static_cast<double>(count) / static_cast<double>(edges.num_edges());
      total += static_cast<double>(count) / static_cast<double>(edges.num_edges());
    }
    EXPECT_NEAR(profile.inside, total, 1e-12);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(profile.density[i], expected[i], 1e-12);
  }
}

TEST(CommunityProfile, OfSizes) {
  Communities communities;
  communities.count = 4;
  communities.of_node = {0, 1, 1, 2, 2, 2, 3, 3, 3, 3};
  communities.sizes = {1, 2, 3, 4};
  const CommunityProfile profile = ProfileCommunities(BuildCsrByTarget(MakeEdges(10, {})), communities);
  EXPECT_DOUBLE_EQ(profile.mean_size, 2.5);
  EXPECT_EQ(profile.max_size, 4);
  EXPECT_EQ(profile.size_quantiles, (std::array<int64_t, 3>{2, 4, 4}));
  EXPECT_EQ(profile.inside, 0.0);
}

TEST(HostCaches, AreThere) {
  const CacheSizes caches = HostCaches();
  EXPECT_GT(caches.l2_bytes, 0);
  EXPECT_GT(caches.llc_bytes, 0);
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// Graphs drawn by law have the sizes and the structure that they were published with: counted here from the edges
// alone.
#include "bench/graph_laws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "bench/published_graphs.h"

namespace vicinal::bench {
namespace {

struct Published {
  const char* name;
  int64_t nodes, edges;
  bool directed;
  int32_t most_in;  // largest in-degree of the real graph; 0: not compared
};

// In the comments of published_graphs.h: where these are from. The largest ones are left to the benchmark.
constexpr Published kPublished[] = {
    {"amazon-photo", 7650, 238162, false, 0},
    {"amazon-computers", 13752, 491722, false, 2992},
    {"coauthor-physics", 34493, 495924, false, 382},
    {"com-dblp", 317080, 2099732, false, 343},
    {"cnr-2000", 325557, 3216152, true, 18235},
    {"road-bay", 321270, 800172, false, 0},
    {"ogbg-molhiv", 1049163, 2259376, false, 10},
    {"tu-proteins", 43471, 162088, false, 0},
    {"flickr", 7575, 479476, false, 0},
};

BinaryGraph Made(std::string_view name, int threads = 2) {
  ThreadPool pool(threads);
  StatusOr<BinaryGraph> graph = MakePublishedGraph(name, pool);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : BinaryGraph{};
}

std::vector<int32_t> InDegrees(const BinaryGraph& graph) {
  std::vector<int32_t> degrees(graph.nodes);
  for (int64_t row = 0; row < graph.nodes; ++row) degrees[row] = graph.row_ptr[row + 1] - graph.row_ptr[row];
  return degrees;
}

std::vector<int32_t> OutDegrees(const BinaryGraph& graph) {
  std::vector<int32_t> degrees(graph.nodes, 0);
  for (const int32_t source : graph.col) ++degrees[source];
  return degrees;
}

int32_t Largest(const std::vector<int32_t>& degrees) { return *std::max_element(degrees.begin(), degrees.end()); }

// Share of all edges at the hundredth of the nodes that has most of them.
double ShareOfFirstPercent(std::vector<int32_t> degrees) {
  std::sort(degrees.rbegin(), degrees.rend());
  const auto all = std::accumulate(degrees.begin(), degrees.end(), int64_t{0});
  const auto top =
      std::accumulate(degrees.begin(), degrees.begin() + static_cast<int64_t>(degrees.size()) / 100, int64_t{0});
  return static_cast<double>(top) / static_cast<double>(all);
}

bool HasEdge(const BinaryGraph& graph, int32_t target, int32_t source) {
  return std::binary_search(graph.col.begin() + graph.row_ptr[target], graph.col.begin() + graph.row_ptr[target + 1],
                            source);
}

// Calls edge(target, source) for each edge.
template <class Edge>
void ForEachEdge(const BinaryGraph& graph, const Edge& edge) {
  for (int32_t target = 0; target < graph.nodes; ++target) {
    for (int32_t e = graph.row_ptr[target]; e < graph.row_ptr[target + 1]; ++e) edge(target, graph.col[e]);
  }
}

// Share of the edges whose reverse is there, too.
double Reciprocity(const BinaryGraph& graph) {
  int64_t both = 0;
  ForEachEdge(graph, [&](int32_t target, int32_t source) { both += HasEdge(graph, source, target); });
  return static_cast<double>(both) / static_cast<double>(graph.edges());
}

int64_t Loops(const BinaryGraph& graph) {
  int64_t loops = 0;
  ForEachEdge(graph, [&](int32_t target, int32_t source) { loops += target == source; });
  return loops;
}

// Share of the edges between ids that differ by at most `reach`.
double ShareWithin(const BinaryGraph& graph, int32_t reach) {
  int64_t within = 0;
  ForEachEdge(graph, [&](int32_t target, int32_t source) { within += std::abs(target - source) <= reach; });
  return static_cast<double>(within) / static_cast<double>(graph.edges());
}

// Mean over nodes with two neighbours or more of the share of their pairs of neighbours that are joined.
double Clustering(const BinaryGraph& graph) {
  double sum = 0.0;
  int64_t count = 0;
  for (int32_t node = 0; node < graph.nodes; node += 7) {
    const int32_t begin = graph.row_ptr[node], end = graph.row_ptr[node + 1];
    if (end - begin < 2) continue;
    int64_t joined = 0;
    for (int32_t a = begin; a < end; ++a) {
      for (int32_t b = begin; b < a; ++b) joined += HasEdge(graph, graph.col[a], graph.col[b]);
    }
    sum += 2.0 * static_cast<double>(joined) / (static_cast<double>(end - begin) * (end - begin - 1));
    ++count;
  }
  return sum / static_cast<double>(count);
}

// Sizes of the connected parts of an undirected graph.
std::vector<int64_t> PartSizes(const BinaryGraph& graph) {
  std::vector<bool> seen(graph.nodes, false);
  std::vector<int64_t> sizes;
  std::vector<int32_t> open;
  for (int32_t first = 0; first < graph.nodes; ++first) {
    if (seen[first]) continue;
    seen[first] = true;
    open.assign(1, first);
    sizes.push_back(0);
    while (!open.empty()) {
      const int32_t node = open.back();
      open.pop_back();
      ++sizes.back();
      for (int32_t e = graph.row_ptr[node]; e < graph.row_ptr[node + 1]; ++e) {
        if (!seen[graph.col[e]]) open.push_back(graph.col[e]);
        seen[graph.col[e]] = true;
      }
    }
  }
  return sizes;
}

TEST(GraphLawsTest, SizesAreThePublishedOnes) {
  for (const Published& published : kPublished) {
    SCOPED_TRACE(published.name);
    const BinaryGraph graph = Made(published.name);
    EXPECT_EQ(graph.nodes, published.nodes);
    const auto edges = static_cast<double>(published.edges);
    EXPECT_NEAR(static_cast<double>(graph.edges()), edges, 0.01 * edges);
    EXPECT_EQ(Loops(graph), 0);
    if (published.directed) {
      EXPECT_LT(Reciprocity(graph), 0.5);
    } else {
      EXPECT_EQ(Reciprocity(graph), 1.0);
    }
    if (published.most_in != 0) {
      EXPECT_GT(Largest(InDegrees(graph)), published.most_in / 2);
      EXPECT_LT(Largest(InDegrees(graph)), published.most_in * 2);
    }
  }
}

TEST(GraphLawsTest, DoNotDependOnTheNumberOfThreads) {
  for (const char* name : {"cnr-2000", "coauthor-physics", "road-bay", "tu-proteins"}) {
    EXPECT_EQ(Checksum(Made(name, 1)), Checksum(Made(name, 5))) << name;
  }
}

TEST(GraphLawsTest, WebHasHeavyTailsBothWaysAndLinksNearBy) {
  const BinaryGraph graph = Made("cnr-2000");
  const std::vector<int32_t> in = InDegrees(graph), out = OutDegrees(graph);
  EXPECT_GT(ShareOfFirstPercent(in), 0.15);
  EXPECT_GT(ShareOfFirstPercent(out), 0.08);
  EXPECT_GT(Largest(out), 2716 / 2) << "cnr-2000's";
  EXPECT_LT(Largest(out), 2716 * 2);
  EXPECT_GT(Largest(in), 4 * Largest(out));
  EXPECT_NEAR(ShareWithin(graph, 1023), 0.647, 0.05) << "of the real graph in the order of its file, docs/tuning.md";
}

TEST(GraphLawsTest, WebWithoutLinksNearByHasNone) {
  ThreadPool pool(2);
  const WebLaw law = {.pages = 20000, .links = 100000, .hosts = 50, .in_cap = 100, .out_cap = 50};
  const BinaryGraph graph = Draw(law, pool);
  EXPECT_LT(ShareWithin(graph, 512), 0.1);
  WebLaw local = law;
  local.near = local.inside = 0.9;
  EXPECT_GT(ShareWithin(Draw(local, pool), 512), 0.7);
}

TEST(GraphLawsTest, AuthorsOfAPaperAreAllJoined) {
  const BinaryGraph graph = Made("coauthor-physics");
  EXPECT_GT(Clustering(graph), 0.3);
  EXPECT_LT(ShareWithin(graph, 512), 0.1) << "ids are shuffled";
  ThreadPool pool(2);
  const BinaryGraph paper =
      Draw(PapersLaw{.authors = 1000, .papers = 1, .more_authors = 40, .most_authors = 9, .cap = 10}, pool);
  const std::vector<int32_t> degrees = InDegrees(paper);
  const auto authors = std::count_if(degrees.begin(), degrees.end(), [](int32_t degree) { return degree > 0; });
  EXPECT_GE(authors, 2);
  EXPECT_LE(authors, 9);
  EXPECT_EQ(paper.edges(), authors * (authors - 1));
}

TEST(GraphLawsTest, RoadsAreConnectedWithFewOfThemAtACrossing) {
  for (const bool shuffled : {false, true}) {
    ThreadPool pool(2);
    const BinaryGraph graph = Draw(RoadsLaw{50000, 62000, shuffled}, pool);
    EXPECT_EQ(graph.edges(), 2 * 62000) << "exactly";
    EXPECT_EQ(PartSizes(graph), std::vector<int64_t>{50000});
    EXPECT_LE(Largest(InDegrees(graph)), 4);
    EXPECT_EQ(Reciprocity(graph), 1.0);
    EXPECT_EQ(Clustering(graph), 0.0) << "a grid has no triangles";
    if (shuffled) {
      EXPECT_LT(ShareWithin(graph, 512), 0.1);
    } else {
      EXPECT_GT(ShareWithin(graph, 512), 0.95) << "tiles of 64 x 64";
    }
  }
}

TEST(GraphLawsTest, RoadsMayBeATreeOrTheWholeGrid) {
  ThreadPool pool(1);
  EXPECT_EQ(Draw(RoadsLaw{10, 9}, pool).edges(), 18);
  const BinaryGraph grid = Draw(RoadsLaw{9, 12}, pool);
  std::vector<int32_t> degrees = InDegrees(grid);
  std::sort(degrees.begin(), degrees.end());
  EXPECT_EQ(degrees, (std::vector<int32_t>{2, 2, 2, 2, 3, 3, 3, 3, 4}));
}

TEST(GraphLawsTest, MoleculesAreSmallAndNearTrees) {
  const BinaryGraph graph = Made("ogbg-molhiv");
  const std::vector<int64_t> sizes = PartSizes(graph);
  EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()), 45);
  EXPECT_NEAR(static_cast<double>(sizes.size()), 41127, 411) << "molecules";
  EXPECT_NEAR(static_cast<double>(graph.edges()) / static_cast<double>(graph.nodes), 2.15, 0.03);
}

TEST(GraphLawsTest, ProteinsAreChainsWithNeighboursInSpace) {
  const BinaryGraph graph = Made("tu-proteins");
  const std::vector<int64_t> sizes = PartSizes(graph);
  EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()), 74);
  EXPECT_NEAR(static_cast<double>(sizes.size()), 1113, 45) << "proteins";
  int64_t chained = 0;
  for (int32_t element = 1; element < graph.nodes; ++element) chained += HasEdge(graph, element, element - 1);
  EXPECT_EQ(chained, graph.nodes - static_cast<int64_t>(sizes.size()));
  EXPECT_GT(Clustering(graph), 0.2);
  EXPECT_LT(ShareWithin(graph, 1), 0.7) << "chains alone have nothing else";
}

}  // namespace
}  // namespace vicinal::bench

// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/graphs.h"

#include <algorithm>
#include <random>
#include <utility>

namespace vicinal::conformance {
namespace {

HostGraph FromEdges(const std::string& name, int64_t nodes, std::vector<std::pair<int64_t, int64_t>> source_target) {
  HostGraph graph;
  graph.name = name;
  graph.rows = graph.cols = nodes;
  std::sort(source_target.begin(), source_target.end(),
            [](const auto& a, const auto& b) { return std::pair(a.second, a.first) < std::pair(b.second, b.first); });
  graph.row_ptr.assign(nodes + 1, 0);
  for (const auto& [source, target] : source_target) {
    graph.col.push_back(static_cast<int32_t>(source));
    ++graph.row_ptr[target + 1];
  }
  for (int64_t i = 0; i < nodes; ++i) graph.row_ptr[i + 1] += graph.row_ptr[i];
  graph.value = RandomVector(graph.edges(), 77);
  return graph;
}

std::vector<std::pair<int64_t, int64_t>> Star(int64_t leaves, bool inward) {
  std::vector<std::pair<int64_t, int64_t>> edges;
  for (int64_t i = 1; i <= leaves; ++i) edges.emplace_back(inward ? i : 0, inward ? 0 : i);
  return edges;
}

// Communities of different sizes and densities, side by side, with edges between them, and some edges twice.
HostGraph Communities() {
  const std::vector<int64_t> borders = {0, 130, 180, 200, 456, 470, 471, 700};
  std::mt19937_64 random(11);
  std::vector<std::pair<int64_t, int64_t>> edges;
  for (size_t b = 0; b + 1 < borders.size(); ++b) {
    const int64_t one_in = b % 2 == 0 ? 3 : 12;
    for (int64_t i = borders[b]; i < borders[b + 1]; ++i) {
      for (int64_t j = borders[b]; j < borders[b + 1]; ++j) {
        if (random() % one_in != 0) continue;
        edges.emplace_back(i, j);
        if (random() % 50 == 0) edges.emplace_back(i, j);
      }
    }
  }
  for (int64_t e = 0; e < 2000; ++e) edges.emplace_back(random() % 690, random() % 690);
  HostGraph graph = FromEdges("communities", 700, edges);
  graph.blocks = borders;
  return graph;
}

}  // namespace

HostGraph RandomGraph(const std::string& name, int64_t cols, const std::vector<int64_t>& degrees, uint64_t seed) {
  std::mt19937_64 random(seed);
  HostGraph graph;
  graph.name = name;
  graph.rows = static_cast<int64_t>(degrees.size());
  graph.cols = cols;
  graph.row_ptr = {0};
  for (int64_t degree : degrees) {
    for (int64_t e = 0; e < degree; ++e) graph.col.push_back(static_cast<int32_t>(random() % cols));
    std::sort(graph.col.end() - degree, graph.col.end());
    graph.row_ptr.push_back(graph.edges());
  }
  graph.value = RandomVector(graph.edges(), seed + 1);
  return graph;
}

HostGraph RowsOf(const HostGraph& graph, const std::vector<int64_t>& rows) {
  HostGraph part;
  part.name = graph.name + " (some rows)";
  part.rows = static_cast<int64_t>(rows.size());
  part.cols = graph.cols;
  part.row_ptr = {0};
  for (int64_t row : rows) {
    for (int64_t e = graph.row_ptr[row]; e < graph.row_ptr[row + 1]; ++e) {
      part.col.push_back(graph.col[e]);
      part.value.push_back(graph.value[e]);
    }
    part.row_ptr.push_back(part.edges());
  }
  return part;
}

std::vector<HostGraph> GraphZoo(bool brief) {
  std::vector<HostGraph> zoo;
  zoo.push_back(FromEdges("one node", 1, {}));
  zoo.push_back(FromEdges("one loop", 1, {{0, 0}}));
  zoo.push_back(FromEdges("no edges", 9, {}));
  std::vector<std::pair<int64_t, int64_t>> path;
  for (int64_t i = 0; i + 1 < 70; ++i) path.emplace_back(i, i + 1);
  zoo.push_back(FromEdges("path", 70, path));
  zoo.push_back(FromEdges("star inward", 3001, Star(3000, true)));
  zoo.push_back(FromEdges("star outward", 401, Star(400, false)));
  zoo.push_back(FromEdges("duplicates and loops", 4, {{0, 1}, {0, 1}, {1, 1}, {1, 1}, {1, 1}, {3, 0}, {2, 2}}));
  std::vector<std::pair<int64_t, int64_t>> complete;
  for (int64_t i = 0; i < 40; ++i) {
    for (int64_t j = 0; j < 40; ++j) complete.emplace_back(i, j);
  }
  zoo.push_back(FromEdges("complete, the rest isolated", 60, complete));
  zoo.push_back(Communities());
  // Around the lengths at which rows are cut, at many positions of the edge numbering.
  zoo.push_back(
      RandomGraph("piece borders", 300,
                  {511, 512, 513, 0, 255, 256, 257, 767, 768, 769, 1, 1023, 1024, 1025, 5, 512, 512, 1536, 3, 512}, 3));
  std::vector<int64_t> even(333), skewed(2000);
  for (size_t i = 0; i < even.size(); ++i) even[i] = static_cast<int64_t>(i % 17);
  for (size_t i = 0; i < skewed.size(); ++i)
    skewed[i] = static_cast<int64_t>((brief ? 2500 : 9000) / (i + 1)) + static_cast<int64_t>(i % 3);
  zoo.push_back(RandomGraph("rectangular", 50, even, 4));
  std::shuffle(skewed.begin(), skewed.end(), std::mt19937_64(5));
  zoo.push_back(RandomGraph("skewed", 2000, skewed, 6));
  const int64_t hub = brief ? 12'000 : 100'000;
  zoo.push_back(RandomGraph("hub of " + std::to_string(hub), 700, {4, 0, hub, 12, 1}, 7));
  return zoo;
}

bool HasHub(const HostGraph& graph) { return graph.name.starts_with("hub"); }

}  // namespace vicinal::conformance

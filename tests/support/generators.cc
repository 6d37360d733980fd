// SPDX-License-Identifier: Apache-2.0
// The generators draw from SplitMix64 in one fixed order, never from the standard
// library's distributions, whose results differ between implementations. O(1) draws for an edge, O(scale) for R-MAT's.
#include "tests/support/generators.h"

#include <numeric>
#include <utility>

#include "engine/base/check.h"
#include "tests/split_mix.h"

namespace vicinal {
namespace {

using testing::SplitMix64;

// In [0, bound), bound < 2^32: the high half of a 32 x 32 bit product; the bias is below 2^-32 * bound.
int64_t Below(SplitMix64& random, int64_t bound) {
  return static_cast<int64_t>(((random.Next() >> 32) * static_cast<uint64_t>(bound)) >> 32);
}

EdgeList EmptyEdges(int64_t num_nodes, int64_t num_edges) {
  VICINAL_CHECK(num_nodes >= 1 && num_nodes < (int64_t{1} << 31));
  EdgeList edges;
  edges.num_nodes = num_nodes;
  edges.source.reserve(num_edges);
  edges.target.reserve(num_edges);
  return edges;
}

void AddEdge(EdgeList* edges, int64_t source, int64_t target) {
  edges->source.push_back(static_cast<NodeId>(source));
  edges->target.push_back(static_cast<NodeId>(target));
}

}  // namespace

EdgeList UniformGraph(int64_t num_nodes, int64_t num_edges, uint64_t seed) {
  EdgeList edges = EmptyEdges(num_nodes, num_edges);
  SplitMix64 random(seed);
  for (int64_t e = 0; e < num_edges; ++e) {
    const int64_t source = Below(random, num_nodes);
    AddEdge(&edges, source, Below(random, num_nodes));
  }
  return edges;
}

EdgeList RmatGraph(int scale, int64_t num_edges, uint64_t seed) {
  constexpr double kA = 0.57, kB = 0.19, kC = 0.19;
  VICINAL_CHECK(scale >= 0 && scale < 31);
  EdgeList edges = EmptyEdges(int64_t{1} << scale, num_edges);
  SplitMix64 random(seed);
  for (int64_t e = 0; e < num_edges; ++e) {
    int64_t source = 0, target = 0;
    for (int level = 0; level < scale; ++level) {
      const double draw = random.Unit();
      source = 2 * source + (draw >= kA + kB);
      target = 2 * target + ((draw >= kA && draw < kA + kB) || draw >= kA + kB + kC);
    }
    AddEdge(&edges, source, target);
  }
  return edges;
}

EdgeList GridGraph(int64_t side) {
  EdgeList edges = EmptyEdges(side * side, 4 * side * (side - 1));
  for (int64_t row = 0; row < side; ++row) {
    for (int64_t col = 0; col < side; ++col) {
      const int64_t here = row * side + col;
      if (row > 0) AddEdge(&edges, here, here - side);
      if (col > 0) AddEdge(&edges, here, here - 1);
      if (col + 1 < side) AddEdge(&edges, here, here + 1);
      if (row + 1 < side) AddEdge(&edges, here, here + side);
    }
  }
  return edges;
}

EdgeList ShuffleIds(const EdgeList& edges, uint64_t seed) {
  std::vector<NodeId> name(edges.num_nodes);
  std::iota(name.begin(), name.end(), 0);
  SplitMix64 random(seed);
  for (int64_t i = edges.num_nodes - 1; i > 0; --i) std::swap(name[i], name[Below(random, i + 1)]);
  EdgeList shuffled = edges;
  for (NodeId& id : shuffled.source) id = name[id];
  for (NodeId& id : shuffled.target) id = name[id];
  return shuffled;
}

}  // namespace vicinal

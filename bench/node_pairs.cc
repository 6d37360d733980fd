// SPDX-License-Identifier: Apache-2.0
// Count, prefix sum, scatter with atomic cursors (which leaves a row's sources in the order of luck), then sort each
// row and drop what is there twice.
#include "bench/node_pairs.h"

#include <algorithm>
#include <atomic>

namespace vicinal::bench {
namespace {

constexpr int64_t kPairsOfTask = 1 << 18, kRowsOfTask = 512;

int32_t Advance(int32_t& counter) { return std::atomic_ref<int32_t>(counter).fetch_add(1, std::memory_order_relaxed); }

// edge(target, source) for each edge that the pairs [begin, end) stand for.
template <class Edge>
void ForEdges(const std::vector<NodePair>& pairs, int64_t begin, int64_t end, Direction direction, const Edge& edge) {
  for (int64_t i = begin; i < end; ++i) {
    const NodePair& pair = pairs[i];
    if (direction == Direction::kBothWays) {
      if (pair.target == pair.source) continue;
      edge(pair.source, pair.target);
    }
    edge(pair.target, pair.source);
  }
}

}  // namespace

BinaryGraph GraphOfPairs(int64_t nodes, std::vector<NodePair> pairs, Direction direction, ThreadPool& pool) {
  const auto count = static_cast<int64_t>(pairs.size());
  std::vector<int32_t> length(nodes, 0);
  ForParts(pool, count, kPairsOfTask, [&](int64_t begin, int64_t end) {
    ForEdges(pairs, begin, end, direction, [&](int32_t target, int32_t) { Advance(length[target]); });
  });
  std::vector<int64_t> first(nodes + 1, 0);
  for (int64_t row = 0; row < nodes; ++row) first[row + 1] = first[row] + length[row];

  std::vector<int32_t> source(first[nodes]);
  std::fill(length.begin(), length.end(), 0);
  ForParts(pool, count, kPairsOfTask, [&](int64_t begin, int64_t end) {
    ForEdges(pairs, begin, end, direction,
             [&](int32_t target, int32_t from) { source[first[target] + Advance(length[target])] = from; });
  });
  std::vector<NodePair>().swap(pairs);

  ForParts(pool, nodes, kRowsOfTask, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto from = source.begin() + first[row], to = source.begin() + first[row + 1];
      std::sort(from, to);
      length[row] = static_cast<int32_t>(std::unique(from, to) - from);
    }
  });
  BinaryGraph graph;
  graph.nodes = nodes;
  graph.row_ptr.resize(nodes + 1, 0);
  for (int64_t row = 0; row < nodes; ++row) graph.row_ptr[row + 1] = graph.row_ptr[row] + length[row];
  graph.col.resize(graph.row_ptr[nodes]);
  ForParts(pool, nodes, kRowsOfTask, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::copy_n(source.begin() + first[row], length[row], graph.col.begin() + graph.row_ptr[row]);
    }
  });
  return graph;
}

}  // namespace vicinal::bench

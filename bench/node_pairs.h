// SPDX-License-Identifier: Apache-2.0
// From pairs of nodes, drawn in any order, to CSR by target.
#ifndef VICINAL_BENCH_NODE_PAIRS_H_
#define VICINAL_BENCH_NODE_PAIRS_H_

#include <cstdint>
#include <vector>

#include "bench/binary_graph.h"
#include "engine/base/thread_pool.h"

namespace vicinal::bench {

struct NodePair {
  int32_t target = 0;
  int32_t source = 0;
};

enum class Direction {
  kAsDrawn,   // an edge per pair; loops stay
  kBothWays,  // two edges per pair; pairs of a node with itself are left out
};

// Each edge once, sources ascending: the same for any order of the pairs and any number of threads.
BinaryGraph GraphOfPairs(int64_t nodes, std::vector<NodePair> pairs, Direction direction, ThreadPool& pool);

// Calls body(begin, end) for parts of [0, count), in parallel.
template <class Body>
void ForParts(ThreadPool& pool, int64_t count, int64_t part, const Body& body) {
  pool.ParallelFor((count + part - 1) / part, [&](int64_t task, int) {
    const int64_t begin = task * part;
    body(begin, begin + part < count ? begin + part : count);
  });
}

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_NODE_PAIRS_H_

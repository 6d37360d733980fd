// SPDX-License-Identifier: Apache-2.0
#ifndef VICINAL_BENCH_RENUMBERED_H_
#define VICINAL_BENCH_RENUMBERED_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/binary_graph.h"
#include "engine/base/status.h"
#include "engine/base/thread_pool.h"

namespace vicinal::bench {

struct RenumberedGraph {
  BinaryGraph graph;
  std::vector<int64_t> blocks;  // as PreparedGraph::Parts has them: borders of communities or of METIS's parts
};

// The graph with its nodes in one of the engine's orders: "none", "degree", "rcm", "community", "metis".
// INVALID_ARGUMENT for another name; FAILED_PRECONDITION where the order cannot be had.
StatusOr<RenumberedGraph> Renumbered(const BinaryGraph& graph, std::string_view order, ThreadPool& pool);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_RENUMBERED_H_

// SPDX-License-Identifier: Apache-2.0
// Building CSR from shuffled edges by several threads without comparing them. Private to this folder.
#ifndef VICINAL_ENGINE_GRAPH_BUCKETED_CSR_H_
#define VICINAL_ENGINE_GRAPH_BUCKETED_CSR_H_

#include <optional>
#include <vector>

#include "engine/base/thread_pool.h"
#include "engine/graph/csr.h"
#include "engine/graph/edge_list.h"

namespace vicinal::internal {

// As BuildCsrByTarget, whatever the threads do, in O(N + E) work. Empty where that would take more memory than the
// result and 4 bytes per edge: of small graphs, and where a few nodes have a large share of the edges; `sent` is then
// left as it was. REQUIRES: fewer than 2^32 edges.
std::optional<Csr> BuildCsrInBuckets(const EdgeList& edges, ThreadPool& pool, std::vector<EdgeId>* sent = nullptr);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_GRAPH_BUCKETED_CSR_H_

// SPDX-License-Identifier: Apache-2.0
// Building, renumbering and examining CSR with several threads. The results are those of csr.h, whatever the threads
// do.
#ifndef VICINAL_ENGINE_GRAPH_PARALLEL_CSR_H_
#define VICINAL_ENGINE_GRAPH_PARALLEL_CSR_H_

#include <vector>

#include "engine/base/thread_pool.h"
#include "engine/graph/csr.h"
#include "engine/graph/edge_list.h"

namespace vicinal {

// As without a pool, and in no more memory. With enough threads to pay, rows are sorted by comparison:
// O(N + E log max degree) work.
Csr BuildCsrByTarget(const EdgeList& edges, ThreadPool* pool);
Csr RenumberCsr(const Csr& csr, const std::vector<NodeId>& new_of_old, ThreadPool* pool);

// As without a pool. O(E log max degree) work with one, done as soon as a thread finds an edge without its reverse.
bool IsPatternSymmetric(const Csr& csr, ThreadPool* pool);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_GRAPH_PARALLEL_CSR_H_

// SPDX-License-Identifier: Apache-2.0
// Assembling edges, and building, renumbering and examining CSR with several threads. The results are those of
// validate.h and csr.h, whatever the threads do.
#ifndef VICINAL_ENGINE_GRAPH_PARALLEL_CSR_H_
#define VICINAL_ENGINE_GRAPH_PARALLEL_CSR_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/tensor.h"
#include "engine/base/thread_pool.h"
#include "engine/graph/csr.h"
#include "engine/graph/edge_list.h"

namespace vicinal {

// As without a pool (null: the calling thread alone), errors too.
StatusOr<EdgeList> AssembleEdges(int64_t num_nodes, const TensorView& edge_index,
                                 const std::optional<TensorView>& edge_weight, ThreadPool* pool);

// As without a pool, `sent` too, and in no more memory. Where that takes sorting by comparison, O(N + E log max degree)
// work: to build where a few nodes have a large share of the edges, and to renumber.
Csr BuildCsrByTarget(const EdgeList& edges, ThreadPool* pool, std::vector<EdgeId>* sent = nullptr);
Csr RenumberCsr(const Csr& csr, const std::vector<NodeId>& new_of_old, ThreadPool* pool,
                std::vector<EdgeId>* sent = nullptr);

// As without a pool. O(E log max degree) work with one, done as soon as a thread finds an edge without its reverse;
// where rows are long, O(E + N log max degree threads), and 8 bytes per node and thread.
bool IsPatternSymmetric(const Csr& csr, ThreadPool* pool);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_GRAPH_PARALLEL_CSR_H_

// SPDX-License-Identifier: Apache-2.0
// The attention weights of in-edges: softmax over each target's scores, per head, as PyTorch Geometric returns them
// with return_attention_weights; of FAConv tanh of each score. Made on the host, in double, of the rows that the
// layer's scores are made of.
#ifndef VICINAL_ENGINE_EXECUTE_LINKS_ATTENTION_WEIGHTS_H_
#define VICINAL_ENGINE_EXECUTE_LINKS_ATTENTION_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/base/work_limits.h"
#include "engine/device/views.h"
#include "engine/execute/links/link_query.h"
#include "engine/execute/queued_request.h"
#include "engine/prepared/edge_matrix.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

// The row of a node in execution order.
inline int64_t RowOfNode(const Permutation& permutation, int64_t node) {
  return permutation.is_identity() ? node : permutation.ToNew(static_cast<NodeId>(node));
}

// In-edges of row `row` after `loops`: as sent, or without loops and then one per node. kAddRemaining is the same, as
// far as edges count: loops that are there become one.
int64_t EdgesOfRow(const Csr& csr, int64_t row, SelfLoops loops);

struct AttentionJob {
  const LinkQuery* query = nullptr;  // of kind kAttention
  const PreparedGraph* graph = nullptr;
  const EdgeMatrix* edges = nullptr;          // in place of the graph's own features of edges; null: those
  ConstMatrixView terms;                      // in host memory: AttentionSource::terms of each of `ids`
  const std::vector<int64_t>* ids = nullptr;  // distinct, ascending; null: of all nodes, by the client's ids
  int64_t* links = nullptr;                   // [rows, 2]: source and target
  float* weights = nullptr;                   // [rows, heads]
};

// Bytes that WeighEdges allocates for a request: places of edges, and on each thread the scores of one target.
int64_t AttentionScratchBytes(const QueuedRequest& request, int num_threads);

// Fills links and weights. A target's edges stand together, by source; duplicates in the order of the upload. Its
// weights depend on nothing but its own edges, so their bits are the same for any selection of nodes and any number of
// threads. Costs O(edges * heads * head width * max(1, edge width)). Errors: those of `stop`.
Status WeighEdges(const AttentionJob& job, ThreadPool* threads, const StopCheck& stop);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_LINKS_ATTENTION_WEIGHTS_H_

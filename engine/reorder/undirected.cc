// SPDX-License-Identifier: Apache-2.0
// Count both ends, prefix sum, one pass over the edges: a row's in-neighbours are copied where they lie together, and
// each source gets the target, which rises as the rows do.
#include "engine/reorder/undirected.h"

#include <algorithm>

#include "engine/graph/parallel_csr.h"

namespace vicinal::internal {

UndirectedGraph::UndirectedGraph(const Csr& graph, ThreadPool* pool) {
  if (IsPatternSymmetric(graph, pool)) {
    row_ptr_ = graph.row_ptr;
    col_ = graph.col;
    return;
  }
  JoinDirections(graph);
  row_ptr_ = own_row_ptr_;
  col_ = own_col_;
}

void UndirectedGraph::JoinDirections(const Csr& graph) {
  const int64_t n = graph.num_rows;
  own_row_ptr_.assign(n + 1, 0);
  for (const NodeId source : graph.col) ++own_row_ptr_[source + 1];
  // Where the next out-neighbour of each node goes: behind its in-neighbours.
  std::vector<EdgeId> next(n);
  for (int64_t v = 0; v < n; ++v) {
    const int64_t in_degree = graph.row_ptr[v + 1] - graph.row_ptr[v];
    next[v] = own_row_ptr_[v] + in_degree;
    own_row_ptr_[v + 1] += own_row_ptr_[v] + in_degree;
  }
  own_col_.resize(own_row_ptr_[n]);
  for (int64_t target = 0; target < n; ++target) {
    const EdgeId begin = graph.row_ptr[target], end = graph.row_ptr[target + 1];
    std::copy(graph.col.begin() + begin, graph.col.begin() + end, own_col_.begin() + own_row_ptr_[target]);
    for (EdgeId e = begin; e < end; ++e) own_col_[next[graph.col[e]]++] = static_cast<NodeId>(target);
  }
}

}  // namespace vicinal::internal

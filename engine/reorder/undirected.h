// SPDX-License-Identifier: Apache-2.0
// A graph taken as undirected, as the orders look at it: each node's in-neighbours and out-neighbours, as often as the
// edges stand. Private to this folder.
#ifndef VICINAL_ENGINE_REORDER_UNDIRECTED_H_
#define VICINAL_ENGINE_REORDER_UNDIRECTED_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/thread_pool.h"
#include "engine/graph/csr.h"

namespace vicinal::internal {

// Where the pattern is symmetric a node's in-neighbours are its neighbours, and this only looks at the graph: each pair
// then counts once per direction that was sent, on either side, which halves all counts alike. Else the two directions
// are joined: in-neighbours ascending, then out-neighbours ascending. Immutable.
class UndirectedGraph {
 public:
  // `graph` must outlive it. O(N + E) time; 8 N + 8 E bytes where the pattern is not symmetric.
  explicit UndirectedGraph(const Csr& graph, ThreadPool* pool = nullptr);
  UndirectedGraph(const UndirectedGraph&) = delete;
  UndirectedGraph& operator=(const UndirectedGraph&) = delete;

  int64_t num_nodes() const { return static_cast<int64_t>(row_ptr_.size()) - 1; }
  // Entries of all nodes: E where the pattern is symmetric, else 2 E.
  int64_t num_entries() const { return row_ptr_.back(); }
  std::span<const EdgeId> row_ptr() const { return row_ptr_; }  // [N + 1]
  std::span<const NodeId> col() const { return col_; }          // [num_entries()]

  int64_t Degree(NodeId v) const { return row_ptr_[v + 1] - row_ptr_[v]; }
  std::span<const NodeId> Neighbours(NodeId v) const { return col_.subspan(row_ptr_[v], Degree(v)); }

 private:
  void JoinDirections(const Csr& graph);

  std::vector<EdgeId> own_row_ptr_;
  std::vector<NodeId> own_col_;
  std::span<const EdgeId> row_ptr_;
  std::span<const NodeId> col_;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_REORDER_UNDIRECTED_H_

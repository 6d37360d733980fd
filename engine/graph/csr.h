// SPDX-License-Identifier: Apache-2.0
// Compressed rows, owned. As an adjacency it is stored by target: row t lists the sources of t's in-edges, so that
// aggregation reads one row per result and needs no atomics.
#ifndef VICINAL_ENGINE_GRAPH_CSR_H_
#define VICINAL_ENGINE_GRAPH_CSR_H_

#include <cstdint>
#include <vector>

#include "engine/device/views.h"
#include "engine/graph/edge_list.h"

namespace vicinal {

struct Csr {
  int64_t num_rows = 0;
  int64_t num_cols = 0;
  std::vector<EdgeId> row_ptr;  // [num_rows + 1]
  std::vector<NodeId> col;      // [nnz], ascending within a row
  std::vector<float> value;     // [nnz] or empty: all ones

  int64_t nnz() const { return static_cast<int64_t>(col.size()); }
  int64_t size_bytes() const {
    return static_cast<int64_t>(row_ptr.size() * sizeof(EdgeId) + col.size() * sizeof(NodeId) +
                                value.size() * sizeof(float));
  }
  CsrView view() const {
    return {num_rows, num_cols, nnz(), row_ptr.data(), col.data(), value.empty() ? nullptr : value.data()};
  }
};

// CSR by target of `edges`: sources ascend within a row; edges with equal ends keep the order they were sent in
// (kAddRemaining needs the last one). Count, prefix sum, scatter by source order: O(N + E), no comparison sort.
// `sent` (null: not wanted) becomes the index in `edges` of each entry [E], for data that stays in the order sent.
// REQUIRES: ids within [0, num_nodes).
Csr BuildCsrByTarget(const EdgeList& edges, std::vector<EdgeId>* sent = nullptr);

// The same graph with node v called new_of_old[v]; rows and columns are renamed, and each row is sorted again (stably).
// `sent` (null: none) is that of `csr`, and becomes that of the result. REQUIRES: new_of_old is a permutation of [0,
// N).
Csr RenumberCsr(const Csr& csr, const std::vector<NodeId>& new_of_old, std::vector<EdgeId>* sent = nullptr);

// The transpose without values: row s lists the targets of s's out-edges, ascending. O(N + E).
Csr TransposePattern(const Csr& csr);

// Whether each edge's reverse is there as often as the edge (values are not compared). O(N + E) time, O(N) memory.
// REQUIRES: csr is square.
bool IsPatternSymmetric(const Csr& csr);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_GRAPH_CSR_H_

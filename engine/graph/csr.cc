// SPDX-License-Identifier: Apache-2.0
// Building, renumbering and transposing CSR by counting: two stable scatters sort by (row, column) without comparing
// anything. Invariant: columns ascend within a row, equal entries keep their order. Each function costs O(N + E) and
// one intermediate CSR.
#include "engine/graph/csr.h"

#include <cstddef>
#include <numeric>

namespace vicinal {
namespace {

// Gathers entries into rows. `visit(emit)` calls emit(row, column, value) for each entry, and is called twice: to count
// and to fill. Within a row, entries lie in the order they are emitted.
template <class Visit>
Csr CollectRows(int64_t num_rows, int64_t num_cols, int64_t nnz, bool valued, const Visit& visit) {
  Csr csr;
  csr.num_rows = num_rows;
  csr.num_cols = num_cols;
  csr.row_ptr.assign(num_rows + 1, 0);
  visit([&](NodeId row, NodeId, float) { ++csr.row_ptr[row + 1]; });
  std::partial_sum(csr.row_ptr.begin(), csr.row_ptr.end(), csr.row_ptr.begin());
  csr.col.resize(nnz);
  if (valued) csr.value.resize(nnz);
  std::vector<EdgeId> next(csr.row_ptr.begin(), csr.row_ptr.end() - 1);
  visit([&](NodeId row, NodeId col, float value) {
    const EdgeId at = next[row]++;
    csr.col[at] = col;
    if (valued) csr.value[at] = value;
  });
  return csr;
}

// Rows are visited in ascending order, so the columns of the result ascend whatever the order within the rows of `csr`.
Csr Transpose(const Csr& csr, bool valued) {
  return CollectRows(csr.num_cols, csr.num_rows, csr.nnz(), valued, [&](const auto& emit) {
    for (int64_t row = 0; row < csr.num_rows; ++row) {
      for (EdgeId e = csr.row_ptr[row]; e < csr.row_ptr[row + 1]; ++e) {
        emit(csr.col[e], static_cast<NodeId>(row), valued ? csr.value[e] : 1.0f);
      }
    }
  });
}

}  // namespace

Csr BuildCsrByTarget(const EdgeList& edges) {
  const int64_t num_edges = edges.num_edges();
  const bool weighted = edges.weighted();
  const Csr by_source = CollectRows(edges.num_nodes, edges.num_nodes, num_edges, weighted, [&](const auto& emit) {
    for (EdgeId e = 0; e < num_edges; ++e) emit(edges.source[e], edges.target[e], weighted ? edges.weight[e] : 1.0f);
  });
  return Transpose(by_source, weighted);
}

Csr RenumberCsr(const Csr& csr, const std::vector<NodeId>& new_of_old) {
  std::vector<NodeId> old_of_new(new_of_old.size());
  for (std::size_t v = 0; v < new_of_old.size(); ++v) old_of_new[new_of_old[v]] = static_cast<NodeId>(v);
  const bool valued = !csr.value.empty();
  const Csr by_source = CollectRows(csr.num_cols, csr.num_rows, csr.nnz(), valued, [&](const auto& emit) {
    for (int64_t row = 0; row < csr.num_rows; ++row) {
      const NodeId old_row = old_of_new[row];
      for (EdgeId e = csr.row_ptr[old_row]; e < csr.row_ptr[old_row + 1]; ++e) {
        emit(new_of_old[csr.col[e]], static_cast<NodeId>(row), valued ? csr.value[e] : 1.0f);
      }
    }
  });
  return Transpose(by_source, valued);
}

Csr TransposePattern(const Csr& csr) { return Transpose(csr, false); }

bool IsPatternSymmetric(const Csr& csr) {
  // In a symmetric pattern, row s is read from its front as the targets t ascend: each edge (s, t) met in row t meets
  // its reverse at row s's cursor. E edges consume E distinct entries, so nothing is left over when all met theirs.
  std::vector<EdgeId> cursor(csr.row_ptr.begin(), csr.row_ptr.end() - 1);
  for (int64_t t = 0; t < csr.num_rows; ++t) {
    for (EdgeId e = csr.row_ptr[t]; e < csr.row_ptr[t + 1]; ++e) {
      const NodeId s = csr.col[e];
      if (cursor[s] == csr.row_ptr[s + 1] || csr.col[cursor[s]] != t) return false;
      ++cursor[s];
    }
  }
  return true;
}

}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// Building, renumbering and transposing CSR by counting: two stable scatters sort by (row, column) without comparing
// anything. Invariant: columns ascend within a row, equal entries keep their order. Each function costs O(N + E) and
// one intermediate CSR.
#include "engine/graph/csr.h"

#include <cstddef>
#include <numeric>
#include <utility>

namespace vicinal {
namespace {

// A pattern, and what each entry carries: its value, or the index of the entry that it was made from.
template <class T>
struct Carrying {
  Csr csr;
  std::vector<T> carried;  // [nnz]; empty: nothing
};

// Gathers entries into rows. `visit(emit)` calls emit(row, column, carried) for each entry, and is called twice: to
// count and to fill. Within a row, entries lie in the order they are emitted.
template <class T, class Visit>
Carrying<T> CollectRows(int64_t num_rows, int64_t num_cols, int64_t nnz, bool carries, const Visit& visit) {
  Carrying<T> result;
  Csr& csr = result.csr;
  csr.num_rows = num_rows;
  csr.num_cols = num_cols;
  csr.row_ptr.assign(num_rows + 1, 0);
  visit([&](NodeId row, NodeId, T) { ++csr.row_ptr[row + 1]; });
  std::partial_sum(csr.row_ptr.begin(), csr.row_ptr.end(), csr.row_ptr.begin());
  csr.col.resize(nnz);
  if (carries) result.carried.resize(nnz);
  std::vector<EdgeId> next(csr.row_ptr.begin(), csr.row_ptr.end() - 1);
  visit([&](NodeId row, NodeId col, T carried) {
    const EdgeId at = next[row]++;
    csr.col[at] = col;
    if (carries) result.carried[at] = carried;
  });
  return result;
}

// Rows are visited in ascending order, so the columns of the result ascend whatever the order within the rows of `csr`.
// `carried` [nnz], or empty.
template <class T>
Carrying<T> Transpose(const Csr& csr, const std::vector<T>& carried) {
  const bool carries = !carried.empty();
  return CollectRows<T>(csr.num_cols, csr.num_rows, csr.nnz(), carries, [&](const auto& emit) {
    for (int64_t row = 0; row < csr.num_rows; ++row) {
      for (EdgeId e = csr.row_ptr[row]; e < csr.row_ptr[row + 1]; ++e) {
        emit(csr.col[e], static_cast<NodeId>(row), carries ? carried[e] : T());
      }
    }
  });
}

Csr WithValues(Carrying<float> result) {
  result.csr.value = std::move(result.carried);
  return std::move(result.csr);
}

// The edges by target; carried_of(e) is what edge e carries.
template <class T, class CarriedOf>
Carrying<T> ByTarget(const EdgeList& edges, bool carries, const CarriedOf& carried_of) {
  const int64_t num_edges = edges.num_edges();
  const auto by_source = CollectRows<T>(edges.num_nodes, edges.num_nodes, num_edges, carries, [&](const auto& emit) {
    for (EdgeId e = 0; e < num_edges; ++e) emit(edges.source[e], edges.target[e], carries ? carried_of(e) : T());
  });
  return Transpose(by_source.csr, by_source.carried);
}

// The renamed graph; carried_of(e) is what entry e of `csr` carries.
template <class T, class CarriedOf>
Carrying<T> Renamed(const Csr& csr, const std::vector<NodeId>& new_of_old, bool carries, const CarriedOf& carried_of) {
  std::vector<NodeId> old_of_new(new_of_old.size());
  for (std::size_t v = 0; v < new_of_old.size(); ++v) old_of_new[new_of_old[v]] = static_cast<NodeId>(v);
  const auto by_source = CollectRows<T>(csr.num_cols, csr.num_rows, csr.nnz(), carries, [&](const auto& emit) {
    for (int64_t row = 0; row < csr.num_rows; ++row) {
      const NodeId old_row = old_of_new[row];
      for (EdgeId e = csr.row_ptr[old_row]; e < csr.row_ptr[old_row + 1]; ++e) {
        emit(new_of_old[csr.col[e]], static_cast<NodeId>(row), carries ? carried_of(e) : T());
      }
    }
  });
  return Transpose(by_source.csr, by_source.carried);
}

// values[index[k]] for each k; empty if there are no values.
template <class T>
std::vector<T> Picked(const std::vector<T>& values, const std::vector<EdgeId>& index) {
  if (values.empty()) return {};
  std::vector<T> picked(index.size());
  for (std::size_t k = 0; k < index.size(); ++k) picked[k] = values[index[k]];
  return picked;
}

}  // namespace

Csr BuildCsrByTarget(const EdgeList& edges, std::vector<EdgeId>* sent) {
  if (sent == nullptr) {
    return WithValues(ByTarget<float>(edges, edges.weighted(), [&](EdgeId e) { return edges.weight[e]; }));
  }
  Carrying<EdgeId> result = ByTarget<EdgeId>(edges, true, [](EdgeId e) { return e; });
  *sent = std::move(result.carried);
  result.csr.value = Picked(edges.weight, *sent);
  return std::move(result.csr);
}

Csr RenumberCsr(const Csr& csr, const std::vector<NodeId>& new_of_old, std::vector<EdgeId>* sent) {
  if (sent == nullptr) {
    return WithValues(Renamed<float>(csr, new_of_old, !csr.value.empty(), [&](EdgeId e) { return csr.value[e]; }));
  }
  Carrying<EdgeId> result = Renamed<EdgeId>(csr, new_of_old, true, [](EdgeId e) { return e; });
  result.csr.value = Picked(csr.value, result.carried);
  *sent = Picked(*sent, result.carried);
  return std::move(result.csr);
}

Csr TransposePattern(const Csr& csr) { return Transpose<float>(csr, {}).csr; }

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

// SPDX-License-Identifier: Apache-2.0
#include "bench/renumbered.h"

#include "engine/base/error.h"
#include "engine/graph/csr.h"
#include "engine/reorder/order.h"

namespace vicinal::bench {

StatusOr<BinaryGraph> Renumbered(const BinaryGraph& graph, std::string_view order, ThreadPool& pool) {
  VICINAL_ASSIGN_OR_RETURN(const OrderKind kind, ParseOrderKind(order));
  if (kind == OrderKind::kAuto) {
    return InvalidArgument("UNKNOWN_ORDER", "order", "auto is decided by preparation; name an order");
  }
  if (kind == OrderKind::kNone) return graph;
  Csr csr;
  csr.num_rows = csr.num_cols = graph.nodes;
  csr.row_ptr.assign(graph.row_ptr.begin(), graph.row_ptr.end());
  csr.col = graph.col;
  VICINAL_ASSIGN_OR_RETURN(const Permutation permutation, ComputeOrder(kind, csr, &pool));
  csr = RenumberCsr(csr, permutation.new_of_old());
  BinaryGraph renumbered;
  renumbered.nodes = graph.nodes;
  renumbered.row_ptr.assign(csr.row_ptr.begin(), csr.row_ptr.end());
  renumbered.col = std::move(csr.col);
  return renumbered;
}

}  // namespace vicinal::bench

// SPDX-License-Identifier: Apache-2.0
#include "bench/renumbered.h"

#include <utility>

#include "engine/base/error.h"
#include "engine/graph/csr.h"
#include "engine/reorder/order.h"

namespace vicinal::bench {
namespace {

// Where a node is of another community than the one before it.
std::vector<int64_t> BordersOf(const Communities& communities, const Permutation& permutation) {
  std::vector<int64_t> borders = {0};
  const auto community = [&](int64_t node) {
    return communities.of_node[permutation.ToOld(static_cast<NodeId>(node))];
  };
  for (int64_t node = 1; node < permutation.size(); ++node) {
    if (community(node) != community(node - 1)) borders.push_back(node);
  }
  borders.push_back(permutation.size());
  return borders;
}

}  // namespace

StatusOr<RenumberedGraph> Renumbered(const BinaryGraph& graph, std::string_view order, ThreadPool& pool) {
  VICINAL_ASSIGN_OR_RETURN(const OrderKind kind, ParseOrderKind(order));
  if (kind == OrderKind::kAuto) {
    return InvalidArgument("UNKNOWN_ORDER", "order", "auto is decided by preparation; name an order");
  }
  if (kind == OrderKind::kNone) return RenumberedGraph{graph, {}};
  Csr csr;
  csr.num_rows = csr.num_cols = graph.nodes;
  csr.row_ptr.assign(graph.row_ptr.begin(), graph.row_ptr.end());
  csr.col = graph.col;
  OrderComputer computer(csr, &pool);
  VICINAL_ASSIGN_OR_RETURN(const Permutation permutation, computer.Compute(kind));
  Csr renumbered = RenumberCsr(csr, permutation.new_of_old());
  RenumberedGraph result;
  result.blocks = computer.TakeMetisBorders();
  if (const Communities* communities = computer.communities()) result.blocks = BordersOf(*communities, permutation);
  result.graph.nodes = graph.nodes;
  result.graph.row_ptr.assign(renumbered.row_ptr.begin(), renumbered.row_ptr.end());
  result.graph.col = std::move(renumbered.col);
  return result;
}

}  // namespace vicinal::bench

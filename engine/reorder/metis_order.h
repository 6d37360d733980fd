// SPDX-License-Identifier: Apache-2.0
// Renumbering by METIS's parts. Private to this folder; metis_order.cc where libmetis was found, metis_missing.cc
// elsewhere.
#ifndef VICINAL_ENGINE_REORDER_METIS_ORDER_H_
#define VICINAL_ENGINE_REORDER_METIS_ORDER_H_

#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/reorder/undirected.h"

namespace vicinal::internal {

extern const bool kHaveMetis;

struct MetisOrder {
  std::vector<NodeId> old_of_new;  // [N]
  std::vector<int64_t> borders;    // between parts in the new order, from 0 to N; empty parts are left out
};

// METIS's k-way partition into ceil(N / block_nodes) parts, in METIS's order of them, reverse Cuthill-McKee inside
// each. Where one part would do, that of the whole graph. Errors and signals: see OrderComputer.
StatusOr<MetisOrder> NumberMetisParts(const UndirectedGraph& graph, int64_t block_nodes, ThreadPool* pool);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_REORDER_METIS_ORDER_H_

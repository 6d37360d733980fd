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

// METIS's k-way partition into ceil(N / block_nodes) parts, in METIS's order of them, reverse Cuthill-McKee inside
// each: the nodes in their new order. Where one part would do, that of the whole graph. Errors and signals: see
// OrderComputer.
StatusOr<std::vector<NodeId>> NumberMetisParts(const UndirectedGraph& graph, int64_t block_nodes, ThreadPool* pool);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_REORDER_METIS_ORDER_H_

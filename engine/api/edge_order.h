// SPDX-License-Identifier: Apache-2.0
// Why a graph takes no edge feature sets.
#ifndef VICINAL_ENGINE_API_EDGE_ORDER_H_
#define VICINAL_ENGINE_API_EDGE_ORDER_H_

#include <string>

#include "engine/base/error.h"
#include "engine/base/status.h"

namespace vicinal {

// FAILED_PRECONDITION (EDGE_ORDER_MISSING), of a graph whose ServingGraph::edge_order_kept is false.
inline Status EdgeOrderMissing(const std::string& graph) {
  return FailedPrecondition(
      "EDGE_ORDER_MISSING",
      "graph '" + graph +
          "' was uploaded without edge_attr, so the order in which its edges were sent was not kept; upload it again "
          "with edge_attr, or with keep_edge_order");
}

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_EDGE_ORDER_H_

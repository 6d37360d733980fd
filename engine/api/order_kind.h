// SPDX-License-Identifier: Apache-2.0
// The node orders that an upload may ask for (engine/reorder computes them).
#ifndef VICINAL_ENGINE_API_ORDER_KIND_H_
#define VICINAL_ENGINE_API_ORDER_KIND_H_

#include <span>
#include <string_view>

#include "engine/base/status.h"

namespace vicinal {

enum class OrderKind {
  kAuto,    // the one that is measured to pay
  kNone,    // as sent
  kDegree,  // in-degree, largest first; equal degrees keep their order
  // Reverse Cuthill-McKee (Cuthill and McKee 1969; George 1971) on the graph taken as undirected; each component from a
  // pseudo-peripheral node (George and Liu 1979), neighbours by degree.
  kRcm,
  // Communities that maximise modularity, reverse Cuthill-McKee inside them (GNNAdvisor, Wang et al. 2021, section
  // 6.1). What merged early lies side by side; a community of more than kBlockNodes nodes is numbered by the smaller
  // ones that it was merged from.
  kCommunity,
  // METIS's k-way partition (Karypis and Kumar 1998) into parts of about kBlockNodes nodes, reverse Cuthill-McKee
  // inside each. Serial.
  kMetis,
};

// All of the above, kAuto first.
std::span<const OrderKind> KnownOrders();
std::string_view ToString(OrderKind kind);  // "auto", "none", "degree", "rcm", "community", "metis"
// INVALID_ARGUMENT naming the known ones.
StatusOr<OrderKind> ParseOrderKind(std::string_view name);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_ORDER_KIND_H_

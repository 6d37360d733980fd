// SPDX-License-Identifier: Apache-2.0
// What a manifest says of a graph version, besides its arrays.
#ifndef VICINAL_ENGINE_DURABLE_GRAPH_METADATA_H_
#define VICINAL_ENGINE_DURABLE_GRAPH_METADATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/api/graph_profile.h"
#include "engine/api/order_kind.h"
#include "engine/api/resources.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/state/manifest.h"

namespace vicinal::durable {

struct GraphMetadata {
  int64_t node_count = 0;
  int64_t edge_count = 0;
  bool weighted = false;
  int64_t edge_feature_width = 0;  // 0: edges have no features
  bool edge_order = false;         // whether the order of the upload was kept
  OrderKind requested_order = OrderKind::kAuto;
  OrderKind order = OrderKind::kNone;
  std::string order_reason;
  std::string ids_digest;
  std::string source_digest;
  bool pinned = false;
  int64_t numerics_revision = 0;
  WallTime create_time{};
  std::vector<StageTime> stages;
  GraphProfile profile;
};

std::string EncodeGraphMetadata(const GraphMetadata& metadata);
// DATA_LOSS (STATE_DAMAGED): a member is missing or out of its range; node and edge counts are within what a graph may
// have, but not compared with the arrays.
StatusOr<GraphMetadata> ParseGraphMetadata(const state::Manifest& manifest);

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_GRAPH_METADATA_H_

// SPDX-License-Identifier: Apache-2.0
// A graph as a person looks at it: how many nodes have which degree, and where its edges lie before and after
// renumbering.
#ifndef VICINAL_ENGINE_API_GRAPH_PICTURE_H_
#define VICINAL_ENGINE_API_GRAPH_PICTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/api/order_kind.h"

namespace vicinal {

struct GraphPicture {
  std::string graph;
  int64_t version = 0;
  int64_t node_count = 0;
  int64_t edge_count = 0;
  OrderKind order = OrderKind::kNone;
  // degree_counts[b]: nodes whose in-degree has b binary digits, that is 0, 1, 2 to 3, 4 to 7, ... Adds up to
  // node_count.
  std::vector<int64_t> degree_counts;
  // The adjacency in side x side tiles, row-major: tile [t, s] counts edges from sources in the s-th part of the ids to
  // targets in the t-th. `before`: in the client's ids; `after`: in execution order. Counts are of every row_stride-th
  // row of the execution order, so that a large graph takes no longer than kPictureEdges edges.
  int side = 0;
  int64_t row_stride = 1;
  std::vector<int64_t> before, after;
};

inline constexpr int64_t kPictureEdges = int64_t{1} << 24;
// The usual side, and the largest.
inline constexpr int kPictureSide = 64, kMaxPictureSide = 256;

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_GRAPH_PICTURE_H_

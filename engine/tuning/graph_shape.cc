// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning/graph_shape.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace vicinal {
namespace {

// Reuse of gathered rows from the profile, at the next larger of its widths.
CacheShares ReuseOf(const LocalityProfile& locality, int64_t row_bytes) {
  size_t i = 0;
  while (i + 1 < kReuseWidths.size() && kReuseWidths[i] * static_cast<int64_t>(sizeof(float)) < row_bytes) ++i;
  return {locality.reuse[i].l2, locality.reuse[i].llc};
}

}  // namespace

WorkShape ShapeOf(const PreparedGraph& graph, const CsrView& adjacency, int num_threads) {
  WorkShape shape;
  shape.rows = adjacency.rows;
  shape.cols = adjacency.cols;
  shape.edges = adjacency.nnz;
  shape.num_threads = num_threads;
  shape.degree_deviation = graph.parts().profile.degree_deviation;
  const LocalityProfile& locality = graph.parts().profile.after;
  const bool known = std::any_of(locality.reuse.begin(), locality.reuse.end(),
                                 [](const ReuseEstimate& r) { return r.l2 > 0.0 || r.llc > 0.0; });
  if (known) shape.reuse = [&locality](int64_t row_bytes) { return ReuseOf(locality, row_bytes); };
  return shape;
}

}  // namespace vicinal

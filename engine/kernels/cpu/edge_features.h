// SPDX-License-Identifier: Apache-2.0
// Where the features of an edge stand (EdgeFeaturesView): those of a row's edges lie one after the other in the order
// sent, but for a self-loop that was put in its place.
#ifndef VICINAL_ENGINE_KERNELS_CPU_EDGE_FEATURES_H_
#define VICINAL_ENGINE_KERNELS_CPU_EDGE_FEATURES_H_

#include <cstdint>
#include <limits>

#include "engine/graph/adjacency.h"
#include "engine/kernels/operations.h"

namespace vicinal::internal {

// The features of the edges of one row of an adjacency. Views what the EdgeFeaturesView views.
class EdgeFeaturesOfRow {
 public:
  EdgeFeaturesOfRow() = default;  // of no row
  EdgeFeaturesOfRow(const EdgeFeaturesView& view, int64_t row) : values_(view.values), width_(view.width) {
    const int64_t node = view.nodes != nullptr ? view.nodes[row] : row;
    before_loop_ = view.sent.row_ptr[node];
    if (!view.one_loop_each) return;
    const LoopRange loops = LoopsOf(view.sent, node);
    loop_at_ = loops.begin - before_loop_;
    after_loop_ = loops.end - loop_at_ - 1;
    loop_ = view.loop_values + node * view.loop_stride;
  }

  // Of the row's edge `k`, counted from 0 in the adjacency's order: [A].
  const float* At(int64_t k) const {
    if (k == loop_at_) return loop_;
    return values_ + ((k < loop_at_ ? before_loop_ : after_loop_) + k) * width_;
  }

 private:
  const float* values_ = nullptr;
  int64_t width_ = 0;
  int64_t before_loop_ = 0;  // row of `values_` of edge 0
  int64_t after_loop_ = 0;   // row of edge k, less k, for edges after the loop
  int64_t loop_at_ = std::numeric_limits<int64_t>::max();
  const float* loop_ = nullptr;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_EDGE_FEATURES_H_

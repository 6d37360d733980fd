// SPDX-License-Identifier: Apache-2.0
// Features of edges (`edge_attr`, [E, A]): out of their tensor, in the order of a CSR's entries, and their means, which
// self-loops that a layer adds may have. Semantics are PyTorch Geometric's (docs/layers.md).
#ifndef VICINAL_ENGINE_GRAPH_EDGE_FEATURES_H_
#define VICINAL_ENGINE_GRAPH_EDGE_FEATURES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/tensor.h"
#include "engine/base/thread_pool.h"
#include "engine/graph/csr.h"

namespace vicinal {

// Checks `edge_attr`, float32, float16 or bfloat16 [num_edges, A] with A >= 1 and finite values, without a copy;
// returns A. INVALID_ARGUMENT, naming the first fault. `pool` null: the calling thread alone.
StatusOr<int64_t> CheckEdgeFeatures(const TensorView& edge_attr, int64_t num_edges, ThreadPool* pool = nullptr);

// FAILED_PRECONDITION unless a graph whose edges have `width` features (0: none) serves a model that reads
// `model_width` of them (0: none): EDGE_ATTR_MISSING, EDGE_ATTR_WIDTH. A graph without edges serves any. `what` has
// these features, for people.
Status CheckEdgeFeatureWidth(int64_t width, int64_t num_edges, int64_t model_width,
                             std::string_view what = "the graph's edge_attr");

// Row k of the result is row sent[k] of `edge_attr`, widened to float32, which CheckEdgeFeatures has passed [E, A].
// `sent`: as BuildCsrByTarget gives it. `pool` null: the calling thread alone.
std::vector<float> OrderEdgeFeatures(const TensorView& edge_attr, const std::vector<EdgeId>& sent,
                                     ThreadPool* pool = nullptr);

// The mean features of each node's in-edges from other nodes, 0 without any: [N, width]. Row e of `features`
// [nnz, width] belongs to entry e of `graph`. Sums are taken in double, means rounded once.
std::vector<float> MeanEdgeFeatures(const Csr& graph, const std::vector<float>& features, int64_t width);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_GRAPH_EDGE_FEATURES_H_

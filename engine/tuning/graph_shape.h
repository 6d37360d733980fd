// SPDX-License-Identifier: Apache-2.0
// What predictions ask of a graph.
#ifndef VICINAL_ENGINE_TUNING_GRAPH_SHAPE_H_
#define VICINAL_ENGINE_TUNING_GRAPH_SHAPE_H_

#include "engine/device/views.h"
#include "engine/kernels/work_shape.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

// Of `adjacency`, which is one of `graph`, with the profile's degrees and reuse. `graph` must outlive the shape.
WorkShape ShapeOf(const PreparedGraph& graph, const CsrView& adjacency, int num_threads);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_GRAPH_SHAPE_H_

// SPDX-License-Identifier: Apache-2.0
#ifndef VICINAL_ENGINE_PREPARED_GRAPH_PICTURE_H_
#define VICINAL_ENGINE_PREPARED_GRAPH_PICTURE_H_

#include "engine/api/graph_picture.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

// The picture with `side` tiles on each side, fewer if the graph has fewer nodes. O(N + min(E, kPictureEdges)) on the
// calling thread: about a quarter of a second at most. `most_edges`: for tests. REQUIRES: side > 0.
GraphPicture PictureOf(const PreparedGraph& graph, int side, int64_t most_edges = kPictureEdges);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARED_GRAPH_PICTURE_H_

// SPDX-License-Identifier: Apache-2.0
// Derives the adjacency that a layer propagates over from the graph as sent: self-loops added or replaced, weights
// normalised. Semantics are PyTorch Geometric's (docs/layers.md); GCN's weights are computed in double and rounded
// once.
#ifndef VICINAL_ENGINE_GRAPH_ADJACENCY_H_
#define VICINAL_ENGINE_GRAPH_ADJACENCY_H_

#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/vocabulary.h"
#include "engine/graph/csr.h"

namespace vicinal {

// `graph` is square, by target, in any numbering whose equal edges keep the order they were sent in; so does the
// result, whose columns ascend within a row. It has values unless the spec's weighting is kNone.
// - With `transposed`, `graph` is turned round first: loops, degrees and weights are those of the turned graph, and
//   equal edges keep their order.
// - kGcnSent of a graph without weights is kGcnOnes, and so with the others of that kind. There, added loops weigh 1
// whatever `loop_weight` says: PyG's `improved` acts only
//   where edge weights are given (gcn_norm of PyG 2.8 fills ones after it has added the loops).
// - FAILED_PRECONDITION, reason EDGE_WEIGHT_MISSING: kSent, but `graph` has no weights.
// - FAILED_PRECONDITION, reason NEGATIVE_DEGREE: GCN's weighting, but the in-edges of a node weigh less than 0 in sum.
// PyG goes on with NaN
//   in all rows that this node reaches; here a value that is not finite never arises unseen. The message names the
//   node; where `old_of_new` is given, as old_of_new[node].
// - FAILED_PRECONDITION, reason NEGATIVE_WEIGHT: a weighting by sources, but an edge weighs less than 0: PyG's ChebConv
// would scale by the largest entry of the whole graph's Laplacian. The message names the edge.
// - FAILED_PRECONDITION, reason WEIGHT_OVERFLOW: a normalised weight does not fit float32.
StatusOr<Csr> BuildAdjacency(const Csr& graph, const AdjacencySpec& spec,
                             const std::vector<NodeId>* old_of_new = nullptr);

// The self-loops of row `row` are entries [begin, end) of `graph`, whose columns ascend within a row; where it has
// none, one would stand at `begin`. A spec that does anything about loops puts one in their place, so a row's sources
// follow from this alone.
struct LoopRange {
  EdgeId begin = 0;
  EdgeId end = 0;
};
LoopRange LoopsOf(const CsrView& graph, int64_t row);

// All edges of a square graph turned round. Columns ascend within a row; equal edges keep their order. O(N + E).
Csr Transposed(const Csr& graph, bool weighted);

// The factors of GCN's weights where every edge weighs 1: d_i = degree^-1/2 [N], rounded once, 0 for degree 0, degrees
// taken after `loops`. w_ij = d_i * d_j, so the adjacency {loops, kNone} and this vector say as much as a value array.
std::vector<float> DegreeScale(const Csr& graph, SelfLoops loops);

// The simplest spec that gives the same adjacency, so that layers which mean the same share one. `weighted`: the graph
// has weights.
AdjacencySpec CanonicalSpec(const AdjacencySpec& spec, bool weighted);

// The sizes of what BuildAdjacency makes, without making it: a graph turned round has those of the graph. At most O(N
// log of a degree).
struct AdjacencyShape {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t edges = 0;
  bool weighted = false;  // has values
  int64_t bytes = 0;
};
AdjacencyShape ShapeOfAdjacency(const Csr& graph, const AdjacencySpec& spec);

// Upper bound of those bytes for any spec.
int64_t AdjacencyBytesBound(int64_t num_nodes, int64_t num_edges);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_GRAPH_ADJACENCY_H_

// SPDX-License-Identifier: Apache-2.0
// Graphs made by rule, the same on every machine: for tests and benches.
#ifndef VICINAL_TESTS_SUPPORT_GENERATORS_H_
#define VICINAL_TESTS_SUPPORT_GENERATORS_H_

#include <cstdint>

#include "engine/graph/edge_list.h"

namespace vicinal {

// num_edges edges with ends drawn uniformly (loops and duplicates occur).
EdgeList UniformGraph(int64_t num_nodes, int64_t num_edges, uint64_t seed);
// R-MAT (Chakrabarti et al. 2004) with a, b, c, d = 0.57, 0.19, 0.19, 0.05; num_nodes = 2^scale: skewed degrees.
EdgeList RmatGraph(int scale, int64_t num_edges, uint64_t seed);
// side x side grid, both directions: the friend of every bandwidth-reducing order.
EdgeList GridGraph(int64_t side);
// The same edges with node ids shuffled.
EdgeList ShuffleIds(const EdgeList& edges, uint64_t seed);

}  // namespace vicinal

#endif  // VICINAL_TESTS_SUPPORT_GENERATORS_H_

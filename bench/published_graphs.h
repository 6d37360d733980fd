// SPDX-License-Identifier: Apache-2.0
// Synthetic twins of graphs that papers on aggregation measure on: of the same size and degrees, drawn by rule, so that
// they can be had everywhere. The same bits on every machine and for any number of threads.
#ifndef VICINAL_BENCH_PUBLISHED_GRAPHS_H_
#define VICINAL_BENCH_PUBLISHED_GRAPHS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/binary_graph.h"
#include "engine/base/status.h"
#include "engine/base/thread_pool.h"

namespace vicinal::bench {

// cora, citeseer, pubmed, artist, blogcatalog, amazon0505, reddit, proteins: degree-corrected stochastic block models
// (Karrer and Newman 2011) with power-law weights, undirected, ids shuffled. amazon0505-ord: communities left side by
// side. rand-100K: FeatGraph's (Hu et al. 2020), every fifth node has 2,000 in-edges, the others 100. rmat5: R-MAT
// (Chakrabarti et al. 2004), a tenth of all pairs. molecules: small near-paths with a few rings.
std::vector<std::string> PublishedGraphNames();

// `edges`: about so many in place of the published number, between as many nodes; 0: as published. Only of the
// stochastic block models. INVALID_ARGUMENT: another name, naming the known ones; `edges` of another kind of graph.
StatusOr<BinaryGraph> MakePublishedGraph(std::string_view name, ThreadPool& pool, int64_t edges = 0);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_PUBLISHED_GRAPHS_H_

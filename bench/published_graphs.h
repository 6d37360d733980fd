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

// By the laws of graph_laws.h; bench/README.md lists sizes and sources.
// - communities, ids shuffled: cora, citeseer, pubmed, artist, blogcatalog, amazon0505, reddit, proteins, amazon-photo,
//   amazon-computers, flickr; amazon0505-ord: communities left side by side
// - papers, ids shuffled: coauthor-physics, com-dblp
// - web, directed, in the order of URLs: cnr-2000, eu-2005
// - roads: roadnet-pa in order, road-bay shuffled
// - one small graph after the other: molecules, ogbg-molhiv, tu-proteins
// - rand-100K, rand-100K-out: FeatGraph's (Hu et al. 2020), and it turned round; rmat5: R-MAT, a tenth of all pairs;
//   mann-a81: nearly complete
std::vector<std::string> PublishedGraphNames();

// `edges`: about so many in place of the published number, between as many nodes; 0: as published. Only of the
// stochastic block models. INVALID_ARGUMENT: another name, naming the known ones; `edges` of another kind of graph.
StatusOr<BinaryGraph> MakePublishedGraph(std::string_view name, ThreadPool& pool, int64_t edges = 0);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_PUBLISHED_GRAPHS_H_

// SPDX-License-Identifier: Apache-2.0
// Laws by which published_graphs.cc draws graphs. A law holds the sizes and shares that a graph was published with.
// Each gives the same bits on every machine and for any number of threads. Unless said otherwise, graphs are undirected
// (an edge each way), without loops, and edges are unique.
#ifndef VICINAL_BENCH_GRAPH_LAWS_H_
#define VICINAL_BENCH_GRAPH_LAWS_H_

#include <cstdint>

#include "bench/binary_graph.h"
#include "engine/base/thread_pool.h"

namespace vicinal::bench {

// A degree-corrected stochastic block model (Karrer and Newman 2011): both ends by weight, the second inside the
// first's community with the probability `inside`.
struct CommunitiesLaw {
  int64_t nodes = 0;
  int64_t edges = 0;    // wanted, both directions counted
  double excess = 1.0;  // pairs drawn by pairs wanted: some fall together
  int communities = 1;
  double inside = 0.0;    // probability that both ends are of one community
  double exponent = 2.6;  // of the degrees' power law
  double cap = 0.0;       // largest weight by mean weight
  bool shuffled = true;
};

// Authors of papers, all of a paper joined (Newman, Watts and Strogatz 2002): many triangles, which a stochastic block
// model lacks. The first author by weight, the others from its group with the probability `inside`. Ids shuffled.
struct PapersLaw {
  int64_t authors = 0;
  int64_t papers = 0;
  double more_authors = 1.0;  // than two, in the mean
  int most_authors = 10;
  int groups = 1;
  double inside = 0.0;
  double exponent = 2.6;  // of the authors' numbers of papers
  double cap = 0.0;
};

// Pages and links, directed. Hosts are stretches of ids and differ in size by a power law, as crawls in the order of
// URLs have them. A link starts at a page by its out-weight. It leads to a page near by on the host with the
// probability `near` (distance log-uniform up to 1,024), to any page of the host by in-weight with the probability
// `inside - near`, and anywhere by in-weight otherwise. Ids in order.
struct WebLaw {
  int64_t pages = 0;
  int64_t links = 0;
  double excess = 1.0;
  int hosts = 1;
  double near = 0.0;
  double inside = 0.0;
  double in_exponent = 2.1;
  double in_cap = 0.0;
  double out_exponent = 2.7;
  double out_cap = 0.0;
};

// Crossings and roads: a random spanning tree of a square grid and further edges of the grid, so that the graph is
// connected and planar, with exactly `roads` edges (each both ways) and at most four at a crossing. Ids run row by row
// inside square tiles, as road networks are kept by region, or are shuffled.
// REQUIRES: crossings - 1 <= roads <= the edges of the grid, about 2 * crossings.
struct RoadsLaw {
  int64_t crossings = 0;
  int64_t roads = 0;
  bool shuffled = false;
};

// Molecules, one after the other: each atom hangs on one of the three before it, and some close a ring with the fifth.
struct MoleculesLaw {
  int64_t atoms = 0;
  uint32_t fewest = 20, most = 60;  // atoms of a molecule
  double rings = 0.08;              // probability that an atom closes a ring
};

// Proteins, one after the other: the elements of a folded chain, each joined to the next and to the `nearest` in space.
struct FoldsLaw {
  int64_t elements = 0;
  uint32_t fewest = 4, most = 74;  // elements of a protein
  int nearest = 3;
};

// Directed: every fifth node has 2,000 in-edges from nodes drawn at random, the others 100 (FeatGraph, Hu et al. 2020).
// `outward`: the edges turned round.
struct FanLaw {
  int64_t nodes = 0;
  bool outward = false;
};

// R-MAT (Chakrabarti et al. 2004), directed, loops stay.
struct RmatLaw {
  int64_t nodes = 0;
  int64_t edges = 0;
  double excess = 1.0;
};

// DIMACS' MANN_a81 in form: all pairs of 3,321 nodes but those within 1,080 triples of nodes, and those of a triple's
// nodes with the three of 81 points that the triple stands for. Which points these are is made up.
struct NearCompleteLaw {
  int32_t nodes = 0;
};

BinaryGraph Draw(const CommunitiesLaw& law, ThreadPool& pool);
BinaryGraph Draw(const PapersLaw& law, ThreadPool& pool);
BinaryGraph Draw(const WebLaw& law, ThreadPool& pool);
BinaryGraph Draw(const RoadsLaw& law, ThreadPool& pool);
BinaryGraph Draw(const MoleculesLaw& law, ThreadPool& pool);
BinaryGraph Draw(const FoldsLaw& law, ThreadPool& pool);
BinaryGraph Draw(const FanLaw& law, ThreadPool& pool);
BinaryGraph Draw(const RmatLaw& law, ThreadPool& pool);
BinaryGraph Draw(const NearCompleteLaw& law, ThreadPool& pool);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_GRAPH_LAWS_H_

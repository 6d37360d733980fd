// SPDX-License-Identifier: Apache-2.0
// Communities of high modularity by the Louvain method (Blondel et al. 2008): nodes move to the neighbouring community
// that gains most, communities become the nodes of a smaller graph, and again, as long as there is a gain. What merged
// with what is kept: it says which communities belong side by side. Private to this folder.
#ifndef VICINAL_ENGINE_REORDER_LOUVAIN_H_
#define VICINAL_ENGINE_REORDER_LOUVAIN_H_

#include <cstdint>
#include <vector>

#include "engine/base/thread_pool.h"
#include "engine/graph/communities.h"
#include "engine/reorder/order.h"
#include "engine/reorder/undirected.h"

namespace vicinal::internal {

// The communities and how they came about. Level 0 are the graph's nodes; parent[k][i] is the node of level k + 1 that
// node i of level k became part of. The last level's nodes are the communities.
struct Dendrogram {
  Communities communities;
  std::vector<std::vector<NodeId>> parent;
};

// The same result whatever `pool` (null: the calling thread alone). Large levels move in parallel, in batches of nodes
// drawn by a hash of their number that see each other's communities as they were before the batch, as in deterministic
// parallel partitioners (Gottesbueren and Hamann 2022); small ones move one node after the other. Only nodes with a
// neighbour that moved are looked at again (Ozaki, Tezuka and Inaba 2016). A few passes over the entries. At most 48
// bytes per node and 16 per entry of the second level's graph, while it is made; and in each thread a hash table of 24
// to 48 bytes per neighbour of the node that has the most of them. Where `given_up` says so, between batches of nodes,
// the communities are left as they stand.
// REQUIRES: fewer than 2^32 entries.
Dendrogram FindDendrogram(const UndirectedGraph& graph, ThreadPool* pool, const GivenUp& given_up = {});

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_REORDER_LOUVAIN_H_

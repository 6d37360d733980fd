// SPDX-License-Identifier: Apache-2.0
// Community-aware renumbering (GNNAdvisor, Wang et al., OSDI 2021, section 6.1). Private to this folder.
#ifndef VICINAL_ENGINE_REORDER_COMMUNITY_ORDER_H_
#define VICINAL_ENGINE_REORDER_COMMUNITY_ORDER_H_

#include <cstdint>
#include <vector>

#include "engine/base/thread_pool.h"
#include "engine/graph/communities.h"
#include "engine/reorder/order.h"
#include "engine/reorder/undirected.h"

namespace vicinal::internal {

struct CommunityOrder {
  Communities communities;
  std::vector<NodeId> old_of_new;  // [N]
};

// Communities, and the nodes by their way up the dendrogram, so that what merged early lies together and a community's
// nodes are consecutive. Reverse Cuthill-McKee numbers the nodes inside the largest subtrees of at most `block_nodes`
// nodes (or of one level, where that is larger): a whole community where it fits. The same result whatever `pool`.
// Where it is given up, the nodes stay as they were sent.
// REQUIRES: fewer than 2^32 entries.
CommunityOrder NumberCommunities(const UndirectedGraph& graph, int64_t block_nodes, ThreadPool* pool,
                                 const GivenUp& given_up = {});

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_REORDER_COMMUNITY_ORDER_H_

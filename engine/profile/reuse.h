// SPDX-License-Identifier: Apache-2.0
// How often an aggregation finds the rows it gathers in a cache, estimated from the order of the gathers alone.
#ifndef VICINAL_ENGINE_PROFILE_REUSE_H_
#define VICINAL_ENGINE_PROFILE_REUSE_H_

#include <array>
#include <cstdint>
#include <span>

#include "engine/graph/csr.h"
#include "engine/profile/graph_profile.h"

namespace vicinal {

// At each of kReuseWidths. The rows of `graph` are taken in `row_order` (empty: as they are); names of nodes do not
// matter, so the reuse of a renumbered graph is that of this one with the rows in the new order.
//
// A gather hits a least-recently-used cache of C rows if fewer than C other rows were gathered since that row was last
// (its reuse distance: Mattson et al. 1970). Distances are taken among sources whose hash is low and scaled up
// (SHARDS: Waldspurger et al. 2015, with its correction of the sample's size), exactly where `sample` covers all edges.
// O(E + sample * log sample); about `sample` gathers are looked at, at most 4 times as many. The same whatever `pool`
// (null: only the calling thread); with one, up to 8 samples per thread are collected at once.
std::array<ReuseEstimate, kReuseWidths.size()> EstimateReuse(const Csr& graph, std::span<const NodeId> row_order,
                                                             const CacheSizes& caches, int64_t sample = kReuseSample,
                                                             ThreadPool* pool = nullptr);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PROFILE_REUSE_H_

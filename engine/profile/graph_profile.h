// SPDX-License-Identifier: Apache-2.0
// What is measured of a graph when it is prepared. Degrees are in-degrees of the graph as sent. All of it depends on
// the graph, the numbering and the cache sizes alone: what is sampled is sampled by a fixed rule.
#ifndef VICINAL_ENGINE_PROFILE_GRAPH_PROFILE_H_
#define VICINAL_ENGINE_PROFILE_GRAPH_PROFILE_H_

#include <cstdint>
#include <span>

#include "engine/api/graph_profile.h"
#include "engine/base/thread_pool.h"
#include "engine/graph/communities.h"
#include "engine/graph/csr.h"

namespace vicinal {

inline constexpr int64_t kTileSample = int64_t{1} << 20;
inline constexpr int64_t kReuseSample = int64_t{1} << 15;

// What ProfileGraph and ProfileLocality are told besides the graph.
struct ProfileOptions {
  int64_t window = kLocalityWindow;
  CacheSizes caches = {};
  // Community of each node, in the graph's numbering; empty: not known.
  std::span<const NodeId> community_of = {};
  ThreadPool* pool = nullptr;  // null: only the calling thread
};

// All that is the same in every numbering, but `communities`: no locality. O(N + E).
GraphProfile ProfileStructure(const Csr& graph, const ProfileOptions& options = {});

// ProfileStructure, and the locality of the numbering that `graph` is in, as `before`. O(N + E).
GraphProfile ProfileGraph(const Csr& graph, const ProfileOptions& options = {});

// Locality of the numbering that `graph` is in. O(E).
LocalityProfile ProfileLocality(const Csr& graph, const ProfileOptions& options = {});

// LocalityProfile::inside_window_and_community. O(E). `pool` null: only the calling thread.
double InsideWindowAndCommunity(const Csr& graph, int64_t window, std::span<const NodeId> community_of,
                                ThreadPool* pool = nullptr);

// `communities` of `graph`, both in any one numbering. O(N + E). `pool` as above.
CommunityProfile ProfileCommunities(const Csr& graph, const Communities& communities, ThreadPool* pool = nullptr);

// The smallest value such that at least a share `q` of `values` is not above it. Reorders `values`, which must not be
// empty.
int64_t Quantile(double q, std::span<int64_t> values);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PROFILE_GRAPH_PROFILE_H_

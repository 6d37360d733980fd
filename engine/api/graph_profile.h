// SPDX-License-Identifier: Apache-2.0
// The profile of a graph, as plain values (engine/profile measures it).
#ifndef VICINAL_ENGINE_API_GRAPH_PROFILE_H_
#define VICINAL_ENGINE_API_GRAPH_PROFILE_H_

#include <array>
#include <cstdint>

namespace vicinal {

// Ids closer than this lie in the same window: 1,024 rows of 64 floats are 256 KiB, a quarter of a core's L2 today.
inline constexpr int64_t kLocalityWindow = 1024;
// Side of the square tiles of the adjacency whose densities are taken.
inline constexpr int64_t kDensityTile = 256;
// Density (edges per possible edge) is told in classes: [0, b0), [b0, b1), ... [b4, infinity); duplicates may push a
// density above 1.
inline constexpr std::array<double, 5> kDensityBounds = {1.0 / 1024, 1.0 / 256, 1.0 / 64, 1.0 / 16, 1.0 / 4};
using DensityShares = std::array<double, kDensityBounds.size() + 1>;
// Widths (floats per row) of the reuse estimates.
inline constexpr std::array<int64_t, 6> kReuseWidths = {16, 32, 64, 128, 256, 512};

// Sizes that the reuse estimates are made for.
struct CacheSizes {
  int64_t l2_bytes = int64_t{1} << 20;
  int64_t llc_bytes = int64_t{32} << 20;
};

// Estimated share of an aggregation's gathers, rows in order on one thread, that find the source's row in a
// least-recently-used cache which holds nothing but gathered rows. The first gather of a row never does.
struct ReuseEstimate {
  double l2 = 0.0;
  double llc = 0.0;
};

// Locality of a numbering. Shares are of all edges, 0 where there are none. Spans and windows are exact. Tiles are
// taken of every k-th band of 256 rows where there are more than kTileSample edges; reuse of the sources whose hash is
// low, so many that they have about kReuseSample gathers (reuse.h).
struct LocalityProfile {
  double inside_window = 0.0;  // share of edges with |source - target| < window
  double mean_span = 0.0;      // mean |source - target|
  // Share of edges inside the window whose ends are in one community as well: what of the communities the numbering
  // makes use of. At most inside_window and CommunityProfile::inside. 0 where communities are not known.
  double inside_window_and_community = 0.0;
  DensityShares tile_density = {};                            // share of edges in tiles of each class of density
  std::array<ReuseEstimate, kReuseWidths.size()> reuse = {};  // at each of kReuseWidths
};

// The communities that were found while renumbering. They are a by-product: an order that does not need them (`none`,
// `degree`, `rcm`, `metis` asked for by name, or `auto` that kept the order without looking for another) leaves them
// unknown, and finding them only to describe them would cost more than the rest of the profile.
struct CommunityProfile {
  bool known = false;  // false: all else is 0
  int64_t count = 0;
  double modularity = 0.0;  // see Communities
  double mean_size = 0.0;
  int64_t max_size = 0;
  std::array<int64_t, 3> size_quantiles = {};  // at 0.5, 0.9, 0.99; each community counts once
  double inside = 0.0;                         // share of edges with both ends in one community, in every numbering
  // Share of all edges that lie inside communities of each class of density, density = edges inside / size^2; adds up
  // to `inside`.
  DensityShares density = {};
};

struct GraphProfile {
  int64_t num_nodes = 0;
  int64_t num_edges = 0;
  double mean_degree = 0.0;
  double degree_deviation = 0.0;
  int64_t max_degree = 0;
  std::array<int64_t, 3> degree_quantiles = {};  // at 0.5, 0.9, 0.99
  int64_t isolated_nodes = 0;                    // no edge in either direction
  int64_t self_loops = 0;
  int64_t duplicate_edges = 0;  // repeat an earlier edge
  bool symmetric = false;       // every edge's reverse is there as often
  int64_t window = 0;           // kLocalityWindow
  CacheSizes caches;            // that `reuse` was estimated for
  CommunityProfile communities;
  LocalityProfile before;  // in the client's ids
  LocalityProfile after;   // in execution order
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_GRAPH_PROFILE_H_

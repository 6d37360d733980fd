// SPDX-License-Identifier: Apache-2.0
// Spans in one pass over the edges; tiles band by band, with one counter for each tile that a band can touch; reuse in
// reuse.cc. O(E) time, 4 bytes per 256 nodes and the sample's of memory.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "engine/profile/graph_profile.h"
#include "engine/profile/reuse.h"
#include "engine/profile/rows_in_parallel.h"

namespace vicinal {
namespace {

size_t DensityClass(double density) {
  return std::upper_bound(kDensityBounds.begin(), kDensityBounds.end(), density) - kDensityBounds.begin();
}

// Share of each of the classes' edges in `total`.
DensityShares SharesOf(const std::array<int64_t, kDensityBounds.size() + 1>& edges, int64_t total) {
  DensityShares shares = {};
  if (total == 0) return shares;
  for (size_t c = 0; c < shares.size(); ++c) shares[c] = static_cast<double>(edges[c]) / static_cast<double>(total);
  return shares;
}

void ProfileSpans(const Csr& graph, int64_t window, ThreadPool* pool, LocalityProfile* profile) {
  const auto [inside, span_sum] = internal::SumOverRows<2>(pool, graph.num_rows, [&](int64_t first, int64_t last) {
    std::array<int64_t, 2> sums = {};
    for (int64_t t = first; t < last; ++t) {
      for (EdgeId e = graph.row_ptr[t]; e < graph.row_ptr[t + 1]; ++e) {
        const int64_t span = std::abs(graph.col[e] - t);
        sums[0] += span < window;
        sums[1] += span;
      }
    }
    return sums;
  });
  profile->inside_window = static_cast<double>(inside) / static_cast<double>(graph.nnz());
  profile->mean_span = static_cast<double>(span_sum) / static_cast<double>(graph.nnz());
}

DensityShares ProfileTiles(const Csr& graph) {
  const int64_t num_bands = (graph.num_rows + kDensityTile - 1) / kDensityTile;
  const int64_t every = (graph.nnz() + kTileSample - 1) / kTileSample;
  std::vector<int64_t> count(num_bands, 0);
  std::vector<int64_t> touched;
  std::array<int64_t, kDensityBounds.size() + 1> edges = {};
  int64_t total = 0;
  for (int64_t band = 0; band < num_bands; band += every) {
    const int64_t first = band * kDensityTile, last = std::min(graph.num_rows, first + kDensityTile);
    for (EdgeId e = graph.row_ptr[first]; e < graph.row_ptr[last]; ++e) {
      const int64_t tile = graph.col[e] / kDensityTile;
      if (count[tile]++ == 0) touched.push_back(tile);
    }
    for (const int64_t tile : touched) {
      const int64_t cols = std::min(graph.num_rows - tile * kDensityTile, kDensityTile);
      edges[DensityClass(static_cast<double>(count[tile]) / static_cast<double>((last - first) * cols))] += count[tile];
      total += count[tile];
      count[tile] = 0;
    }
    touched.clear();
  }
  return SharesOf(edges, total);
}

}  // namespace

LocalityProfile ProfileLocality(const Csr& graph, const ProfileOptions& options) {
  LocalityProfile profile;
  if (graph.nnz() == 0) return profile;
  ProfileSpans(graph, options.window, options.pool, &profile);
  if (!options.community_of.empty()) {
    profile.inside_window_and_community =
        InsideWindowAndCommunity(graph, options.window, options.community_of, options.pool);
  }
  profile.tile_density = ProfileTiles(graph);
  profile.reuse = EstimateReuse(graph, {}, options.caches, kReuseSample, options.pool);
  return profile;
}

double InsideWindowAndCommunity(const Csr& graph, int64_t window, std::span<const NodeId> community_of,
                                ThreadPool* pool) {
  if (graph.nnz() == 0) return 0.0;
  const auto [inside] = internal::SumOverRows<1>(pool, graph.num_rows, [&](int64_t first, int64_t last) {
    int64_t sum = 0;
    for (int64_t t = first; t < last; ++t) {
      for (EdgeId e = graph.row_ptr[t]; e < graph.row_ptr[t + 1]; ++e) {
        sum += std::abs(graph.col[e] - t) < window && community_of[graph.col[e]] == community_of[t];
      }
    }
    return std::array<int64_t, 1>{sum};
  });
  return static_cast<double>(inside) / static_cast<double>(graph.nnz());
}

CommunityProfile ProfileCommunities(const Csr& graph, const Communities& communities, ThreadPool* pool) {
  CommunityProfile profile;
  profile.known = true;
  profile.count = communities.count;
  profile.modularity = communities.modularity;
  if (communities.count == 0) return profile;
  std::vector<int64_t> sizes(communities.sizes.begin(), communities.sizes.end());
  profile.mean_size = static_cast<double>(graph.num_rows) / static_cast<double>(communities.count);
  profile.max_size = *std::max_element(sizes.begin(), sizes.end());
  constexpr std::array<double, 3> kQuantiles = {0.5, 0.9, 0.99};
  for (size_t i = 0; i < kQuantiles.size(); ++i) profile.size_quantiles[i] = Quantile(kQuantiles[i], sizes);
  if (graph.nnz() == 0) return profile;

  std::vector<int64_t> of_row(graph.num_rows);  // edges of each row that stay inside
  internal::SumOverRows<0>(pool, graph.num_rows, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const NodeId own = communities.of_node[t];
      int64_t here = 0;
      for (EdgeId e = graph.row_ptr[t]; e < graph.row_ptr[t + 1]; ++e) here += communities.of_node[graph.col[e]] == own;
      of_row[t] = here;
    }
    return std::array<int64_t, 0>();
  });
  std::vector<int64_t> inside(communities.count, 0);
  for (int64_t t = 0; t < graph.num_rows; ++t) inside[communities.of_node[t]] += of_row[t];
  std::array<int64_t, kDensityBounds.size() + 1> edges = {};
  int64_t total = 0;
  for (int64_t c = 0; c < communities.count; ++c) {
    const double pairs = static_cast<double>(communities.sizes[c]) * static_cast<double>(communities.sizes[c]);
    edges[DensityClass(static_cast<double>(inside[c]) / pairs)] += inside[c];
    total += inside[c];
  }
  profile.inside = static_cast<double>(total) / static_cast<double>(graph.nnz());
  profile.density = SharesOf(edges, graph.nnz());
  return profile;
}

}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
#include "server/convert_profile.h"

namespace vicinal::server {
namespace {

v1::CommunityProfile CommunitiesOf(const CommunityProfile& communities) {
  v1::CommunityProfile out;
  out.set_community_count(communities.count);
  out.set_modularity(communities.modularity);
  out.set_mean_size(communities.mean_size);
  out.set_max_size(communities.max_size);
  for (const int64_t quantile : communities.size_quantiles) out.add_size_quantiles(quantile);
  out.set_inside(communities.inside);
  for (const double share : communities.density) out.add_density_shares(share);
  return out;
}

v1::Locality LocalityOf(const LocalityProfile& locality) {
  v1::Locality out;
  out.set_inside_window_and_community(locality.inside_window_and_community);
  for (const double share : locality.tile_density) out.add_tile_density_shares(share);
  for (size_t i = 0; i < kReuseWidths.size(); ++i) {
    v1::ReuseEstimate* estimate = out.add_reuse();
    estimate->set_width(kReuseWidths[i]);
    estimate->set_l2(locality.reuse[i].l2);
    estimate->set_llc(locality.reuse[i].llc);
  }
  return out;
}

}  // namespace

v1::GraphProfile ToProto(const GraphProfile& profile) {
  v1::GraphProfile out;
  out.set_mean_degree(profile.mean_degree);
  out.set_degree_deviation(profile.degree_deviation);
  out.set_max_degree(profile.max_degree);
  for (const int64_t quantile : profile.degree_quantiles) out.add_degree_quantiles(quantile);
  out.set_isolated_node_count(profile.isolated_nodes);
  out.set_self_loop_count(profile.self_loops);
  out.set_duplicate_edge_count(profile.duplicate_edges);
  out.set_symmetric(profile.symmetric);
  out.set_window(profile.window);
  out.set_inside_window_before(profile.before.inside_window);
  out.set_inside_window_after(profile.after.inside_window);
  out.set_mean_span_before(profile.before.mean_span);
  out.set_mean_span_after(profile.after.mean_span);
  if (profile.communities.known) *out.mutable_communities() = CommunitiesOf(profile.communities);
  for (const double bound : kDensityBounds) out.add_density_bounds(bound);
  out.set_density_tile(kDensityTile);
  *out.mutable_before() = LocalityOf(profile.before);
  *out.mutable_after() = LocalityOf(profile.after);
  out.set_l2_bytes(profile.caches.l2_bytes);
  out.set_llc_bytes(profile.caches.llc_bytes);
  return out;
}

}  // namespace vicinal::server

// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/graph_metadata.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/vocabulary.h"
#include "engine/durable/metadata.h"
#include "engine/graph/edge_list.h"
#include "engine/state/names.h"

namespace vicinal::durable {
namespace {

// Each list of members serves the writer and the reader.
template <class Visitor, class Locality>
void LocalityMembers(Visitor& visit, Locality& locality) {
  visit("inside_window", locality.inside_window);
  visit("mean_span", locality.mean_span);
  visit("inside_window_and_community", locality.inside_window_and_community);
  visit("tile_density", locality.tile_density);
  std::array<double, kReuseWidths.size()> l2 = {}, llc = {};
  for (size_t i = 0; i < kReuseWidths.size(); ++i) {
    l2[i] = locality.reuse[i].l2;
    llc[i] = locality.reuse[i].llc;
  }
  visit("reuse_l2", l2);
  visit("reuse_llc", llc);
  if constexpr (!std::is_const_v<Locality>) {
    for (size_t i = 0; i < kReuseWidths.size(); ++i) locality.reuse[i] = {l2[i], llc[i]};
  }
}

template <class Visitor, class Communities>
void CommunityMembers(Visitor& visit, Communities& communities) {
  visit("known", communities.known);
  visit("count", communities.count);
  visit("modularity", communities.modularity);
  visit("mean_size", communities.mean_size);
  visit("max_size", communities.max_size);
  visit("size_quantiles", communities.size_quantiles);
  visit("inside", communities.inside);
  visit("density", communities.density);
}

template <class Visitor, class Profile>
void ProfileMembers(Visitor& visit, Profile& profile) {
  visit("num_nodes", profile.num_nodes);
  visit("num_edges", profile.num_edges);
  visit("mean_degree", profile.mean_degree);
  visit("degree_deviation", profile.degree_deviation);
  visit("max_degree", profile.max_degree);
  visit("degree_quantiles", profile.degree_quantiles);
  visit("isolated_nodes", profile.isolated_nodes);
  visit("self_loops", profile.self_loops);
  visit("duplicate_edges", profile.duplicate_edges);
  visit("symmetric", profile.symmetric);
  visit("window", profile.window);
  visit("l2_bytes", profile.caches.l2_bytes);
  visit("llc_bytes", profile.caches.llc_bytes);
  visit.Object("communities", [&](auto& inner) { CommunityMembers(inner, profile.communities); });
  visit.Object("before", [&](auto& inner) { LocalityMembers(inner, profile.before); });
  visit.Object("after", [&](auto& inner) { LocalityMembers(inner, profile.after); });
}

// What is not kept in the form in which the engine has it.
struct Text {
  std::string requested_order, order;
  int64_t create_time = 0;
};

template <class Visitor, class Metadata, class Extra>
void GraphMembers(Visitor& visit, Metadata& metadata, Extra& text) {
  visit("node_count", metadata.node_count);
  visit("edge_count", metadata.edge_count);
  visit("weighted", metadata.weighted);
  visit("requested_order", text.requested_order);
  visit("order", text.order);
  visit("order_reason", metadata.order_reason);
  visit("ids_digest", metadata.ids_digest);
  visit("numerics_revision", metadata.numerics_revision);
  visit("create_time_ns", text.create_time);
  visit.Object("profile", [&](auto& inner) { ProfileMembers(inner, metadata.profile); });
}

constexpr const char* kStageNames[] = {"assemble", "validate", "csr", "renumber", "profile", "publish"};

}  // namespace

std::string EncodeGraphMetadata(const GraphMetadata& metadata) {
  const Text text = {std::string(ToString(metadata.requested_order)), std::string(ToString(metadata.order)),
                     ToNanoseconds(metadata.create_time)};
  MetadataWriter writer;
  GraphMembers(writer, metadata, text);
  writer("pinned", metadata.pinned);
  writer("source_digest", metadata.source_digest);
  if (metadata.edge_feature_width > 0) writer("edge_feature_width", metadata.edge_feature_width);
  if (metadata.edge_order) writer("edge_order", metadata.edge_order);
  writer.Object("stages", [&](MetadataWriter& inner) {
    for (const StageTime& stage : metadata.stages) inner(stage.stage.c_str(), stage.seconds);
  });
  return writer.Text();
}

StatusOr<GraphMetadata> ParseGraphMetadata(const state::Manifest& manifest) {
  VICINAL_ASSIGN_OR_RETURN(MetadataReader reader,
                           MetadataReader::Parse(state::Describe(manifest.id), manifest.metadata));
  GraphMetadata metadata;
  Text text;
  GraphMembers(reader, metadata, text);
  // Format 1.0 of the first builds had neither.
  if (reader.Has("pinned")) reader("pinned", metadata.pinned);
  if (reader.Has("source_digest")) reader("source_digest", metadata.source_digest);
  if (reader.Has("edge_feature_width")) reader("edge_feature_width", metadata.edge_feature_width);
  if (reader.Has("edge_order")) reader("edge_order", metadata.edge_order);  // since format 1.1
  reader.Object("stages", [&](MetadataReader& inner) {
    for (const char* const name : kStageNames) {
      if (!inner.Has(name)) continue;
      StageTime stage{name, 0.0};
      inner(name, stage.seconds);
      metadata.stages.push_back(std::move(stage));
    }
  });
  VICINAL_RETURN_IF_ERROR(reader.status());
  const auto requested = ParseOrderKind(text.requested_order), order = ParseOrderKind(text.order);
  if (!requested.ok() || !order.ok() || *order == OrderKind::kAuto) reader.Fail("the order is not a known one");
  if (metadata.node_count < 1 || metadata.node_count > std::numeric_limits<NodeId>::max()) {
    reader.Fail("node_count is out of its range");
  }
  if (metadata.edge_feature_width < 0 || metadata.edge_feature_width > std::numeric_limits<NodeId>::max()) {
    reader.Fail("edge_feature_width is out of its range");
  }
  if (metadata.profile.num_nodes != metadata.node_count || metadata.profile.num_edges != metadata.edge_count) {
    reader.Fail("the profile is that of another graph");
  }
  VICINAL_RETURN_IF_ERROR(reader.status());
  metadata.requested_order = *requested;
  metadata.order = *order;
  metadata.create_time = FromNanoseconds(text.create_time);
  return metadata;
}

}  // namespace vicinal::durable

// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/features_metadata.h"

#include <limits>

#include "engine/durable/metadata.h"
#include "engine/durable/version_ids.h"
#include "engine/graph/edge_list.h"

namespace vicinal::durable {
namespace {

template <class Visitor, class Metadata>
void Members(FeatureKind kind, Visitor& visit, Metadata& metadata) {
  visit("feature_count", metadata.feature_count);
  visit("create_time_ns", metadata.create_time);
  if (kind == FeatureKind::kEdges) {
    visit("edge_count", metadata.edge_count);
  } else {
    visit("sparse", metadata.sparse);
    visit("entry_count", metadata.entry_count);
  }
}

}  // namespace

std::string TextOf(const FeaturesMetadata& metadata, FeatureKind kind) {
  MetadataWriter text;
  Members(kind, text, metadata);
  text("source_digest", metadata.source_digest);
  return text.Text();
}

StatusOr<FeaturesMetadata> ParseFeaturesMetadata(const state::Manifest& manifest) {
  VICINAL_ASSIGN_OR_RETURN(MetadataReader reader,
                           MetadataReader::Parse(state::Describe(manifest.id), manifest.metadata));
  const FeatureKind kind = KindOf(manifest.id.store);
  FeaturesMetadata metadata;
  Members(kind, reader, metadata);
  // The first builds wrote none, and knew only sets of nodes.
  if (kind == FeatureKind::kEdges || reader.Has("source_digest")) reader("source_digest", metadata.source_digest);
  if (metadata.feature_count < 1 || metadata.feature_count > std::numeric_limits<NodeId>::max()) {
    reader.Fail("feature_count is out of its range");
  }
  VICINAL_RETURN_IF_ERROR(reader.status());
  return metadata;
}

}  // namespace vicinal::durable

// SPDX-License-Identifier: Apache-2.0
// Section edge_attr, float32 [E, A], in execution order. Means are derived again, from equal numbers in equal order.
#include "engine/durable/edge_features_codec.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/durable/features_metadata.h"
#include "engine/durable/metadata.h"
#include "engine/durable/sections.h"
#include "engine/durable/version_files.h"
#include "engine/state/file_error.h"

namespace vicinal::durable {
namespace {

constexpr char kSection[] = "edge_attr";

}  // namespace

Status WriteEdgeFeatures(const FeatureSet& set, state::VersionWriter& writer, const IsUnwanted& is_unwanted) {
  const EdgeMatrix& edges = *set.edges;
  VICINAL_RETURN_IF_ERROR(
      WriteFile(writer, kFeaturesFile,
                {{{kSection, DataType::kFloat32, {edges.rows(), edges.cols()}}, BytesOf(*edges.host())}}, is_unwanted));
  FeaturesMetadata metadata;
  metadata.feature_count = edges.cols();
  metadata.create_time = ToNanoseconds(set.create_time);
  metadata.source_digest = set.source_digest;
  metadata.edge_count = edges.rows();
  return writer.Publish(TextOf(metadata, FeatureKind::kEdges));
}

StatusOr<int64_t> EdgeFeatureBytesBound(const state::Manifest& manifest, const GraphSize& graph, const Device& device) {
  VICINAL_ASSIGN_OR_RETURN(const FeaturesMetadata metadata, ParseFeaturesMetadata(manifest));
  VICINAL_ASSIGN_OR_RETURN(const state::ManifestFile file, OnlyFile(manifest, kFeaturesFile));
  if (metadata.edge_count != graph.edges) {
    return state::Damaged(state::Describe(manifest.id), "it is of a graph with another number of edges");
  }
  if (graph.edges == 0) return 0;
  // Compared by division, so that no claim overflows.
  const int64_t cols = metadata.feature_count;
  if (cols > file.summary.bytes / 4 / graph.edges) {
    return state::Damaged(state::Describe(manifest.id), "it has fewer bytes than its rows take");
  }
  // The means of all nodes, on a GPU also on their way there.
  const int64_t means = device.kind() == DeviceKind::kCpu ? 1 : 2;
  if (means * graph.nodes > std::numeric_limits<int64_t>::max() / 8 / cols) {
    return state::Damaged(state::Describe(manifest.id), "the means of its features take more than any memory has");
  }
  return EdgeMatrix::BytesOn(means * graph.nodes, graph.edges, cols, device.kind());
}

StatusOr<ReadFeaturesResult> ReadEdgeFeatures(const state::StateDirectory& directory, const state::Manifest& manifest,
                                              const PreparedGraph& graph, Device& device, ThreadPool* pool) {
  VICINAL_RETURN_IF_ERROR(EdgeFeatureBytesBound(manifest, {graph.num_nodes(), graph.num_edges()}, device).status());
  VICINAL_ASSIGN_OR_RETURN(const FeaturesMetadata metadata, ParseFeaturesMetadata(manifest));
  VICINAL_ASSIGN_OR_RETURN(const state::ManifestFile entry, OnlyFile(manifest, kFeaturesFile));
  VICINAL_ASSIGN_OR_RETURN(const auto reader, directory.OpenFile(manifest, entry.name));
  SectionSet file(state::Describe(manifest.id) + ", " + entry.name, *reader);
  auto values = std::make_shared<std::vector<float>>();
  VICINAL_RETURN_IF_ERROR(
      file.Add(kSection, DataType::kFloat32, graph.num_edges(), metadata.feature_count, values.get()));
  VICINAL_RETURN_IF_ERROR(file.ReadAll(pool));
  if (!AreFinite(values->data(), static_cast<int64_t>(values->size()), pool)) {
    return file.Bad(kSection, "a feature of an edge is not finite");
  }
  ReadFeaturesResult result;
  result.create_time = FromNanoseconds(metadata.create_time);
  result.source_digest = metadata.source_digest;
  VICINAL_ASSIGN_OR_RETURN(result.edges,
                           EdgeMatrix::Make(graph.parts().csr, std::move(values), metadata.feature_count, device));
  return result;
}

}  // namespace vicinal::durable

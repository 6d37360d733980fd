// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/graph_codec.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/durable/graph_metadata.h"
#include "engine/durable/sections.h"
#include "engine/durable/version_files.h"
#include "engine/state/file_error.h"

namespace vicinal::durable {
namespace {

constexpr char kGraphFile[] = "graph";

GraphMetadata MetadataOf(const PreparedGraph& graph) {
  const PreparedGraph::Parts& parts = graph.parts();
  GraphMetadata metadata;
  metadata.node_count = graph.num_nodes();
  metadata.edge_count = graph.num_edges();
  metadata.weighted = graph.weighted();
  metadata.edge_feature_width = graph.edge_feature_width();
  metadata.edge_order = !parts.edge_order.empty();
  metadata.requested_order = parts.requested_order;
  metadata.order = parts.order;
  metadata.order_reason = parts.order_reason;
  metadata.ids_digest = parts.ids_digest;
  metadata.source_digest = parts.source_digest;
  metadata.pinned = parts.pinned;
  metadata.numerics_revision = parts.numerics_revision;
  metadata.create_time = parts.create_time;
  metadata.stages = parts.stages;
  metadata.profile = parts.profile;
  return metadata;
}

// Reads `parts` but for what the metadata says, into what was checked to have its place.
Status ReadArrays(SectionSet& file, const GraphMetadata& metadata, ThreadPool* pool,
                  const std::function<void()>& when_read, PreparedGraph::Parts* parts) {
  const int64_t nodes = metadata.node_count, edges = metadata.edge_count;
  Csr& csr = parts->csr;
  std::vector<NodeId> new_of_old;
  VICINAL_RETURN_IF_ERROR(file.Add("row_ptr", DataType::kInt64, nodes + 1, &csr.row_ptr));
  VICINAL_RETURN_IF_ERROR(file.Add("col", DataType::kInt32, edges, &csr.col));
  if (metadata.weighted) VICINAL_RETURN_IF_ERROR(file.Add("value", DataType::kFloat32, edges, &csr.value));
  if (const int64_t width = parts->edge_feature_width = metadata.edge_feature_width; width > 0) {
    VICINAL_RETURN_IF_ERROR(file.Add("edge_attr", DataType::kFloat32, edges, width, &parts->edge_attr));
  }
  if (metadata.edge_order) {
    VICINAL_RETURN_IF_ERROR(file.Add("edge_order", DataType::kInt64, edges, &parts->edge_order));
  }
  const bool renumbered = file.Has("new_of_old");
  if (renumbered) VICINAL_RETURN_IF_ERROR(file.Add("new_of_old", DataType::kInt32, nodes, &new_of_old));
  if (const state::Section* const blocks = file.Find("blocks"); blocks != nullptr) {
    const int64_t count = blocks->spec.shape[0];
    if (count > nodes + 1) return file.Bad("blocks", "there are more blocks than nodes");
    VICINAL_RETURN_IF_ERROR(file.Add("blocks", DataType::kInt64, count, &parts->blocks));
  }
  VICINAL_RETURN_IF_ERROR(file.ReadAll(pool));
  if (when_read) when_read();
  if (!AreOffsets(csr.row_ptr, edges, pool)) return file.Bad("row_ptr", "these are not the borders of rows");
  if (!AreRows(csr.row_ptr, csr.col, nodes, false, pool)) {
    return file.Bad("col", "a node is out of range, or not in its place within a row");
  }
  if (!AreFinite(csr.value.data(), static_cast<int64_t>(csr.value.size()), pool)) {
    return file.Bad("value", "an edge weight is not finite");
  }
  if (!AreFinite(parts->edge_attr.data(), static_cast<int64_t>(parts->edge_attr.size()), pool)) {
    return file.Bad("edge_attr", "a feature of an edge is not finite");
  }
  if (!IsPermutation(parts->edge_order)) return file.Bad("edge_order", "it is not a permutation");
  if (!parts->blocks.empty() && !AreOffsets(parts->blocks, nodes, pool)) {
    return file.Bad("blocks", "these are not the borders of blocks of nodes");
  }
  if (renumbered && !IsPermutation(new_of_old)) return file.Bad("new_of_old", "it is not a permutation");
  csr.num_rows = csr.num_cols = nodes;
  parts->permutation = renumbered ? Permutation::FromNewOfOld(std::move(new_of_old)) : Permutation::Identity(nodes);
  return OkStatus();
}

}  // namespace

Status WriteGraph(const PreparedGraph& graph, state::VersionWriter& writer, const IsUnwanted& is_unwanted,
                  const std::function<Status()>& before_publish) {
  const PreparedGraph::Parts& parts = graph.parts();
  VICINAL_CHECK(parts.segments.empty());  // a batch is never stored
  const int64_t nodes = graph.num_nodes(), edges = graph.num_edges();
  std::vector<std::pair<state::SectionSpec, std::string_view>> sections = {
      {{"row_ptr", DataType::kInt64, {nodes + 1}}, BytesOf(parts.csr.row_ptr)},
      {{"col", DataType::kInt32, {edges}}, BytesOf(parts.csr.col)}};
  if (graph.weighted()) sections.push_back({{"value", DataType::kFloat32, {edges}}, BytesOf(parts.csr.value)});
  if (graph.edge_feature_width() > 0) {
    sections.push_back(
        {{"edge_attr", DataType::kFloat32, {edges, graph.edge_feature_width()}}, BytesOf(parts.edge_attr)});
  }
  if (!parts.edge_order.empty()) {
    sections.push_back({{"edge_order", DataType::kInt64, {edges}}, BytesOf(parts.edge_order)});
  }
  if (!parts.permutation.is_identity()) {
    sections.push_back({{"new_of_old", DataType::kInt32, {nodes}}, BytesOf(parts.permutation.new_of_old())});
  }
  if (!parts.blocks.empty()) {
    const auto count = static_cast<int64_t>(parts.blocks.size());
    sections.push_back({{"blocks", DataType::kInt64, {count}}, BytesOf(parts.blocks)});
  }
  VICINAL_RETURN_IF_ERROR(WriteFile(writer, kGraphFile, sections, is_unwanted));
  if (before_publish) VICINAL_RETURN_IF_ERROR(before_publish());
  return writer.Publish(EncodeGraphMetadata(MetadataOf(graph)));
}

StatusOr<int64_t> GraphBytesBound(const state::Manifest& manifest) {
  VICINAL_ASSIGN_OR_RETURN(const GraphMetadata metadata, ParseGraphMetadata(manifest));
  VICINAL_ASSIGN_OR_RETURN(const state::ManifestFile file, OnlyFile(manifest, kGraphFile));
  const int64_t nodes = metadata.node_count, edges = metadata.edge_count;
  const int64_t edge_bytes =
      (metadata.weighted ? 8 : 4) + 4 * metadata.edge_feature_width + (metadata.edge_order ? 8 : 0);
  // Compared by division, so that no claim overflows.
  if (nodes > file.summary.bytes / 8 || edges > (file.summary.bytes - 8 * nodes) / edge_bytes) {
    return state::Damaged(state::Describe(manifest.id), "it has fewer bytes than its nodes and edges take");
  }
  // Besides the CSR: both directions of the permutation, borders of blocks, and a bitmap to check orders with.
  const int64_t ordered = metadata.edge_order ? std::max(nodes, edges) : nodes;
  return 8 * (nodes + 1) + edges * edge_bytes + 8 * nodes + ordered / 8 + 1 + 8 * (nodes + 1);
}

StatusOr<ReadGraphResult> ReadGraph(const state::StateDirectory& directory, const state::Manifest& manifest,
                                    Device& device, ThreadPool* pool, const std::function<void()>& when_read) {
  VICINAL_RETURN_IF_ERROR(GraphBytesBound(manifest).status());
  VICINAL_ASSIGN_OR_RETURN(const GraphMetadata metadata, ParseGraphMetadata(manifest));
  VICINAL_ASSIGN_OR_RETURN(const state::ManifestFile entry, OnlyFile(manifest, kGraphFile));
  VICINAL_ASSIGN_OR_RETURN(const auto file, directory.OpenFile(manifest, entry.name));
  SectionSet sections(state::Describe(manifest.id) + ", " + entry.name, *file);
  PreparedGraph::Parts parts;
  VICINAL_RETURN_IF_ERROR(ReadArrays(sections, metadata, pool, when_read, &parts));
  parts.name = manifest.id.name;
  parts.version = manifest.id.version;
  parts.ids_digest = metadata.ids_digest;
  parts.source_digest = metadata.source_digest;
  parts.pinned = metadata.pinned;
  parts.numerics_revision = NumericsRevision(metadata.order);
  parts.requested_order = metadata.requested_order;
  parts.order = metadata.order;
  parts.order_reason = metadata.order_reason;
  parts.profile = metadata.profile;
  parts.stages = metadata.stages;
  parts.create_time = metadata.create_time;
  if (parts.numerics_revision != metadata.numerics_revision) parts.former_revision = metadata.numerics_revision;
  ReadGraphResult result;
  result.former_revision = parts.former_revision;
  result.graph = std::make_shared<const PreparedGraph>(std::move(parts), &device);
  return result;
}

}  // namespace vicinal::durable

// SPDX-License-Identifier: Apache-2.0
// Feature sets of nodes. Dense: section x, float32 [N, F]. Sparse: indptr, indices, and values unless all are 1.
#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "engine/durable/edge_features_codec.h"
#include "engine/durable/features_metadata.h"
#include "engine/durable/graph_codec.h"
#include "engine/durable/metadata.h"
#include "engine/durable/sections.h"
#include "engine/durable/version_files.h"
#include "engine/durable/version_ids.h"
#include "engine/state/file_error.h"

namespace vicinal::durable {
namespace {

// Rows without the padding that a GPU has between them.
Status AppendRows(state::SectionFileWriter& file, size_t section, ConstMatrixView rows, Device& device,
                  const IsUnwanted& is_unwanted) {
  if (rows.stride == rows.cols) {
    const int64_t bytes = rows.rows * rows.cols * static_cast<int64_t>(sizeof(float));
    return AppendFromDevice(file, section, rows.data, bytes, device, is_unwanted);
  }
  const int64_t at_once = std::max<int64_t>(1, kPieceBytes / (rows.stride * static_cast<int64_t>(sizeof(float))));
  std::vector<float> padded(static_cast<size_t>(std::min(at_once, rows.rows) * rows.stride));
  for (int64_t begin = 0; begin < rows.rows; begin += at_once) {
    const int64_t count = std::min(at_once, rows.rows - begin);
    VICINAL_RETURN_IF_ERROR(device.CopyToHost(padded.data(), rows.data + begin * rows.stride,
                                              static_cast<size_t>(count * rows.stride) * sizeof(float)));
    for (int64_t r = 1; r < count; ++r) {
      std::copy_n(padded.data() + r * rows.stride, rows.cols, padded.data() + r * rows.cols);
    }
    const int64_t bytes = count * rows.cols * static_cast<int64_t>(sizeof(float));
    VICINAL_RETURN_IF_ERROR(AppendInPieces(file, section, padded.data(), bytes, is_unwanted));
  }
  return OkStatus();
}

Status WriteSparse(CsrView csr, Device& device, state::VersionWriter& writer, const IsUnwanted& is_unwanted) {
  std::vector<state::SectionSpec> specs = {{"indptr", DataType::kInt64, {csr.rows + 1}},
                                           {"indices", DataType::kInt32, {csr.nnz}}};
  if (csr.value != nullptr) specs.push_back({"values", DataType::kFloat32, {csr.nnz}});  // none: all are 1
  VICINAL_ASSIGN_OR_RETURN(state::SectionFileWriter* const file, writer.AddFile(kFeaturesFile, std::move(specs)));
  VICINAL_RETURN_IF_ERROR(AppendFromDevice(*file, 0, csr.row_ptr, (csr.rows + 1) * 8, device, is_unwanted));
  VICINAL_RETURN_IF_ERROR(AppendFromDevice(*file, 1, csr.col, csr.nnz * 4, device, is_unwanted));
  if (csr.value != nullptr) {
    VICINAL_RETURN_IF_ERROR(AppendFromDevice(*file, 2, csr.value, csr.nnz * 4, device, is_unwanted));
  }
  return file->Finish();
}

Status WriteDense(ConstMatrixView rows, Device& device, state::VersionWriter& writer, const IsUnwanted& is_unwanted) {
  VICINAL_ASSIGN_OR_RETURN(state::SectionFileWriter* const file,
                           writer.AddFile(kFeaturesFile, {{"x", DataType::kFloat32, {rows.rows, rows.cols}}}));
  VICINAL_RETURN_IF_ERROR(AppendRows(*file, 0, rows, device, is_unwanted));
  return file->Finish();
}

StatusOr<std::shared_ptr<const FeatureMatrix>> ReadSparse(SectionSet& file, const FeaturesMetadata& metadata,
                                                          int64_t num_nodes, Device& device, ThreadPool* pool) {
  HostFeatures features;
  features.sparse = true;
  features.rows = num_nodes;
  features.cols = metadata.feature_count;
  Csr& csr = features.csr;
  VICINAL_RETURN_IF_ERROR(file.Add("indptr", DataType::kInt64, num_nodes + 1, &csr.row_ptr));
  VICINAL_RETURN_IF_ERROR(file.Add("indices", DataType::kInt32, metadata.entry_count, &csr.col));
  if (file.Has("values")) {
    VICINAL_RETURN_IF_ERROR(file.Add("values", DataType::kFloat32, metadata.entry_count, &csr.value));
  }
  VICINAL_RETURN_IF_ERROR(file.ReadAll(pool));
  if (!AreOffsets(csr.row_ptr, metadata.entry_count, pool)) {
    return file.Bad("indptr", "these are not the borders of rows");
  }
  if (!AreRows(csr.row_ptr, csr.col, features.cols, true, pool)) {
    return file.Bad("indices", "a column is out of range, or not in its place within a row");
  }
  if (!AreFinite(csr.value.data(), static_cast<int64_t>(csr.value.size()), pool))
    return file.Bad("values", "a number is not finite");
  csr.num_rows = num_nodes;
  csr.num_cols = features.cols;
  return FeatureMatrix::Upload(features, device);
}

StatusOr<std::shared_ptr<const FeatureMatrix>> ReadDense(const state::SectionFileReader& reader, SectionSet& file,
                                                         const FeaturesMetadata& metadata, int64_t num_nodes,
                                                         Device& device, ThreadPool* pool) {
  VICINAL_ASSIGN_OR_RETURN(const state::Section* const x,
                           file.Get("x", DataType::kFloat32, {num_nodes, metadata.feature_count}));
  const auto fill = [&](int64_t first, int64_t numbers, float* to) -> Status {
    constexpr int64_t kBytes = sizeof(float);
    // While they are in the cache: another pass over all rows would come after the disk has ended.
    std::atomic<bool> finite{true};
    const auto check = [&](const char* piece, int64_t bytes) {
      const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
      if (!AreFinite(reinterpret_cast<const float*>(piece), count, nullptr)) finite = false;
    };
    VICINAL_RETURN_IF_ERROR(reader.Read({{x, to, check, first * kBytes, numbers * kBytes}}, pool));
    return finite ? OkStatus() : file.Bad("x", "a number is not finite");
  };
  return FeatureMatrix::FillDenseInParts(num_nodes, metadata.feature_count, device, fill);
}

}  // namespace

Status WriteFeatures(const FeatureSet& set, Device& device, state::VersionWriter& writer,
                     const IsUnwanted& is_unwanted) {
  if (set.kind == FeatureKind::kEdges) return WriteEdgeFeatures(set, writer, is_unwanted);
  const FeatureMatrix& features = *set.matrix;
  FeaturesMetadata metadata;
  metadata.feature_count = features.cols();
  metadata.sparse = features.sparse();
  metadata.entry_count = features.entries();
  metadata.create_time = ToNanoseconds(set.create_time);
  metadata.source_digest = set.source_digest;
  VICINAL_RETURN_IF_ERROR(features.sparse() ? WriteSparse(features.csr(), device, writer, is_unwanted)
                                            : WriteDense(features.dense(), device, writer, is_unwanted));
  return writer.Publish(TextOf(metadata, FeatureKind::kNodes));
}

FeatureSetResource DescribeFeatures(const state::Manifest& manifest, const GraphSize& graph) {
  FeatureSetResource set;
  set.kind = KindOf(manifest.id.store);
  set.graph = manifest.id.graph;
  set.name = manifest.id.name;
  set.version = manifest.id.version;
  for (const state::ManifestFile& file : manifest.files) set.size_bytes += file.summary.bytes;
  const bool of_edges = set.kind == FeatureKind::kEdges;
  (of_edges ? set.edge_count : set.node_count) = of_edges ? graph.edges : graph.nodes;
  const StatusOr<FeaturesMetadata> metadata = ParseFeaturesMetadata(manifest);
  if (!metadata.ok()) return set;
  set.create_time = FromNanoseconds(metadata->create_time);
  set.feature_count = metadata->feature_count;
  set.sparse = metadata->sparse;
  set.entry_count = of_edges ? graph.edges * metadata->feature_count : metadata->entry_count;
  set.source_digest = metadata->source_digest;
  return set;
}

StatusOr<int64_t> FeatureBytesBound(const state::Manifest& manifest, const GraphSize& graph, const Device& device) {
  if (KindOf(manifest.id.store) == FeatureKind::kEdges) return EdgeFeatureBytesBound(manifest, graph, device);
  const int64_t num_nodes = graph.nodes;
  VICINAL_ASSIGN_OR_RETURN(const FeaturesMetadata metadata, ParseFeaturesMetadata(manifest));
  VICINAL_ASSIGN_OR_RETURN(const state::ManifestFile file, OnlyFile(manifest, kFeaturesFile));
  // Compared by division, so that no claim overflows. Sparse entries may have no values.
  const int64_t most = file.summary.bytes / 4;
  if (metadata.sparse ? metadata.entry_count > most || num_nodes > most / 2
                      : metadata.feature_count > most / num_nodes) {
    return state::Damaged(state::Describe(manifest.id), "it has fewer bytes than its rows take");
  }
  const int64_t bytes =
      metadata.sparse ? 8 * (num_nodes + 1) + 8 * metadata.entry_count : 4 * num_nodes * metadata.feature_count;
  // In memory rows may be padded to the next multiple of 16 floats, which at most doubles those of 32 columns and more;
  // a GPU's matrix is on the host meanwhile.
  const int64_t copies = device.kind() == DeviceKind::kCpu && !metadata.sparse ? 1 : 3;
  return bytes * copies;
}

StatusOr<ReadFeaturesResult> ReadFeatures(const state::StateDirectory& directory, const state::Manifest& manifest,
                                          int64_t num_nodes, Device& device, ThreadPool* pool) {
  VICINAL_ASSIGN_OR_RETURN(const FeaturesMetadata metadata, ParseFeaturesMetadata(manifest));
  VICINAL_ASSIGN_OR_RETURN(const state::ManifestFile entry, OnlyFile(manifest, kFeaturesFile));
  VICINAL_ASSIGN_OR_RETURN(const auto reader, directory.OpenFile(manifest, entry.name));
  SectionSet file(state::Describe(manifest.id) + ", " + entry.name, *reader);
  ReadFeaturesResult result;
  result.create_time = FromNanoseconds(metadata.create_time);
  result.source_digest = metadata.source_digest;
  VICINAL_ASSIGN_OR_RETURN(result.matrix, metadata.sparse
                                              ? ReadSparse(file, metadata, num_nodes, device, pool)
                                              : ReadDense(*reader, file, metadata, num_nodes, device, pool));
  return result;
}

void PrefetchFeatures(const state::StateDirectory& directory, const state::Manifest& manifest) {
  const StatusOr<state::ManifestFile> entry = OnlyFile(manifest, kFeaturesFile);
  if (!entry.ok()) return;
  const auto reader = directory.OpenFile(manifest, entry->name);
  if (!reader.ok()) return;
  for (const state::Section& section : (*reader)->sections()) (*reader)->Prefetch(section);
}

}  // namespace vicinal::durable

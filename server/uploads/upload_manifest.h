// SPDX-License-Identifier: Apache-2.0
// The declarations of an upload's first message, checked before any data is accepted: names, types, shapes, limits.
// Pure functions; declared sizes cause no allocation.
#ifndef VICINAL_SERVER_UPLOADS_UPLOAD_MANIFEST_H_
#define VICINAL_SERVER_UPLOADS_UPLOAD_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api/requests.h"
#include "engine/base/status.h"
#include "engine/base/tensor.h"
#include "server/config.h"
#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/model.pb.h"

namespace vicinal::server {

enum class UploadKind { kGraph, kFeatures, kModel };
const char* ResourceTypeOf(UploadKind kind);  // "graph", "feature set", "model"
const char* MetricsNameOf(UploadKind kind);   // "graph", "features", "model"

struct ManifestTensor {
  std::string name;
  DataType dtype = DataType::kFloat32;
  std::vector<int64_t> shape;
  int64_t size_bytes = 0;
};

struct UploadManifest {
  UploadKind kind = UploadKind::kGraph;
  std::string upload_id;
  std::string resource_name;  // "cora"; for a feature set "cora/default"
  std::string spec;           // the serialised spec of the first message: equal specs mean the same upload
  std::vector<ManifestTensor> tensors;
  bool replace = false;
  int64_t graph_version = 0;  // of a feature set: the version of its graph that was there when the upload began

  int64_t size_bytes() const;
  // Null: it is not declared.
  const ManifestTensor* Find(std::string_view tensor) const;
  // Of that tensor; nullopt: it is not declared.
  std::optional<TensorSize> SizeOf(std::string_view tensor) const;
};

// INVALID_ARGUMENT, naming the field of the spec: names outside the grammar, tensors unknown, missing, twice, of a
// wrong type or shape, inconsistent counts, exceeded limits.
StatusOr<UploadManifest> MakeUploadManifest(const v1::UploadGraphSpec& spec, const Limits& limits);
// `node_count`, `edge_count`: of the graph that the features belong to.
StatusOr<UploadManifest> MakeUploadManifest(const v1::UploadFeaturesSpec& spec, int64_t node_count, int64_t edge_count,
                                            const Limits& limits);
StatusOr<UploadManifest> MakeUploadManifest(const v1::UploadModelSpec& spec, const Limits& limits);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_UPLOADS_UPLOAD_MANIFEST_H_

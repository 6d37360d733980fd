// SPDX-License-Identifier: Apache-2.0
#include "server/uploads/upload_manifest.h"

#include <algorithm>
#include <functional>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "server/convert.h"

namespace vicinal::server {
namespace {

using TensorSpecs = google::protobuf::RepeatedPtrField<v1::TensorSpec>;

constexpr std::initializer_list<DataType> kIds = {DataType::kInt32, DataType::kInt64};
constexpr std::initializer_list<DataType> kFloats = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};

// A spec is kept as long as its upload can be queried. A model's spec contains its architecture, of at most 4 MiB.
constexpr int64_t kMaxSpecBytes = (int64_t{4} << 20) + (64 << 10);

Status Bad(std::string_view field, const std::string& message) { return InvalidArgument("BAD_UPLOAD", field, message); }

// The declared tensors with sizes, for lookup by name and checks.
class TensorTable {
 public:
  static StatusOr<TensorTable> Read(const TensorSpecs& specs, std::initializer_list<std::string_view> known) {
    TensorTable table;
    for (int i = 0; i < specs.size(); ++i) {
      const std::string field = absl::StrCat("spec.tensors[", i, "]");
      if (std::find(known.begin(), known.end(), specs[i].name()) == known.end()) {
        std::string names;
        for (const std::string_view name : known) absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(name));
        return Bad(field + ".name", absl::StrCat("there is no tensor '", specs[i].name(),
                                                 "' in this kind of upload; there are: ", names));
      }
      if (table.Find(specs[i].name()) != nullptr) {
        return Bad(field + ".name", absl::StrCat("the tensor '", specs[i].name(), "' is declared twice"));
      }
      ManifestTensor tensor;
      tensor.name = specs[i].name();
      VICINAL_ASSIGN_OR_RETURN(tensor.dtype, FromProto(specs[i].dtype(), field + ".dtype"));
      tensor.shape.assign(specs[i].shape().begin(), specs[i].shape().end());
      VICINAL_ASSIGN_OR_RETURN(const int64_t elements,
                               ElementCount({tensor.dtype, tensor.shape, {}}, field + ".shape"));
      tensor.size_bytes = elements * SizeOf(tensor.dtype);
      table.tensors.push_back(std::move(tensor));
    }
    return table;
  }

  const ManifestTensor* Find(std::string_view name) const {
    for (const ManifestTensor& tensor : tensors) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }

  // The tensor, which must be declared.
  StatusOr<const ManifestTensor*> Need(const char* name) const {
    const ManifestTensor* tensor = Find(name);
    if (tensor == nullptr)
      return Bad("spec.tensors", absl::StrCat("the tensor '", name, "' is missing; declare it in spec.tensors"));
    return tensor;
  }

  // The field of one of `tensors`.
  std::string FieldOf(const ManifestTensor& tensor) const {
    return absl::StrCat("spec.tensors[", &tensor - tensors.data(), "]");
  }

  // Extents of -1 in `shape` match any.
  // `meaning`: of the dimensions, for whoever has the wrong ones.
  Status Check(const ManifestTensor& tensor, std::initializer_list<DataType> types, std::vector<int64_t> shape,
               std::string_view meaning = "") const {
    const std::string field = FieldOf(tensor);
    if (std::find(types.begin(), types.end(), tensor.dtype) == types.end()) {
      std::string names;
      for (const DataType type : types)
        absl::StrAppend(&names, names.empty() ? "" : " or ", std::string(ToString(type)));
      return Bad(field + ".dtype",
                 absl::StrCat(tensor.name, " must be ", names, ", not ", std::string(ToString(tensor.dtype))));
    }
    bool fits = tensor.shape.size() == shape.size();
    std::string expected;
    for (size_t i = 0; i < shape.size(); ++i) {
      fits = fits && (shape[i] < 0 || tensor.shape[i] == shape[i]);
      absl::StrAppend(&expected, i == 0 ? "" : ", ", shape[i] < 0 ? "any" : std::to_string(shape[i]));
    }
    if (fits) return OkStatus();
    return Bad(field + ".shape", absl::StrCat(tensor.name, " is declared as ", ShapeToString(tensor.shape),
                                              ", it must be [", expected, "]", std::string(meaning)));
  }

  std::vector<ManifestTensor> tensors;
};

// Only together with `replace`.
Status CheckReplace(bool replace, int64_t if_version) {
  if (if_version < 0) {
    return Bad("spec.if_version", absl::StrCat("spec.if_version is ", if_version, "; versions must not be negative"));
  }
  if (if_version != 0 && !replace) {
    return Bad("spec.if_version", "spec.if_version is set without spec.replace; set both, or neither");
  }
  return OkStatus();
}

constexpr char kSourceDigest[] = "spec.source_digest";

// It is kept as long as what was uploaded, and is printed in answers and on terminals.
Status CheckDigest(const std::string& digest, const char* field) {
  constexpr size_t kLongest = 128;
  const bool visible = std::all_of(digest.begin(), digest.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (visible && digest.size() <= kLongest) return OkStatus();
  return Bad(field, absl::StrCat(field, " must have at most ", kLongest, " visible ASCII characters"));
}

// Features, dense or CSR, of `node_count` nodes. Neither form present: false.
StatusOr<bool> CheckFeatures(const TensorTable& table, int64_t node_count, int64_t feature_count,
                             const Limits& limits) {
  const ManifestTensor* x = table.Find("x");
  const bool csr =
      table.Find("x_indptr") != nullptr || table.Find("x_indices") != nullptr || table.Find("x_values") != nullptr;
  if (x != nullptr && csr)
    return Bad("spec.tensors", "send features as x, or as x_indptr, x_indices and x_values, not as both");
  if (x != nullptr) {
    VICINAL_RETURN_IF_ERROR(table.Check(*x, kFloats, {node_count, -1}, ": a row for each node of the graph"));
    const std::string columns = absl::StrCat(table.FieldOf(*x), ".shape[1]");
    if (x->shape[1] < 1) return Bad(columns, "x has no columns; send at least one feature per node, or omit x");
    if (x->shape[1] > limits.max_features) return OverLimit("max_features", columns, x->shape[1], limits.max_features);
    return true;
  }
  if (!csr) return false;
  VICINAL_ASSIGN_OR_RETURN(const ManifestTensor* indptr, table.Need("x_indptr"));
  VICINAL_ASSIGN_OR_RETURN(const ManifestTensor* indices, table.Need("x_indices"));
  VICINAL_ASSIGN_OR_RETURN(const ManifestTensor* values, table.Need("x_values"));
  VICINAL_RETURN_IF_ERROR(table.Check(*indptr, {DataType::kInt64}, {node_count + 1}));
  VICINAL_RETURN_IF_ERROR(table.Check(*indices, {DataType::kInt32}, {-1}));
  VICINAL_RETURN_IF_ERROR(table.Check(*values, kFloats, {indices->shape[0]}));
  if (feature_count < 1)
    return Bad("spec.feature_count",
               absl::StrCat("spec.feature_count is ", feature_count, "; features in CSR form need it, at least 1"));
  if (feature_count > limits.max_features)
    return OverLimit("max_features", "spec.feature_count", feature_count, limits.max_features);
  return true;
}

// Only features in CSR form need it, whose tensors do not have their width. Elsewhere it must not say anything else
// than they do: that client means something that does not happen.
Status CheckFeatureCount(const TensorTable& table, int64_t feature_count) {
  constexpr char kField[] = "spec.feature_count";
  constexpr char kAdvice[] = "leave it out: only features of nodes in CSR form (x_indptr, x_indices, x_values) need it";
  if (feature_count == 0 || table.Find("x_indptr") != nullptr) return OkStatus();
  if (const ManifestTensor* x = table.Find("x"); x != nullptr) {
    if (feature_count == x->shape[1]) return OkStatus();
    return Bad(kField, absl::StrCat("spec.feature_count is ", feature_count, ", but x has ", x->shape[1], " columns; ",
                                    kAdvice));
  }
  if (const ManifestTensor* edges = table.Find("edge_attr"); edges != nullptr) {
    return Bad(kField, absl::StrCat("spec.feature_count is ", feature_count,
                                    ", but no features of nodes are declared, and edge_attr has ", edges->shape[1],
                                    " columns, whatever it says; ", kAdvice));
  }
  return Bad(kField,
             absl::StrCat("spec.feature_count is ", feature_count, ", but no features are declared; ", kAdvice));
}

// Features of `edge_count` edges, if declared.
Status CheckEdgeFeatures(const TensorTable& table, int64_t edge_count, const Limits& limits) {
  const ManifestTensor* features = table.Find("edge_attr");
  if (features == nullptr) return OkStatus();
  VICINAL_RETURN_IF_ERROR(table.Check(*features, kFloats, {edge_count, -1},
                                      ": a row for each edge of the graph, in the order of its edge_index"));
  const std::string columns = absl::StrCat(table.FieldOf(*features), ".shape[1]");
  if (features->shape[1] < 1)
    return Bad(columns, "edge_attr has no columns; send at least one feature per edge, or omit edge_attr");
  if (features->shape[1] > limits.max_features)
    return OverLimit("max_features", columns, features->shape[1], limits.max_features);
  return OkStatus();
}

StatusOr<UploadManifest> Finish(UploadKind kind, const std::string& upload_id, std::string resource_name,
                                std::string spec, TensorTable table, bool replace, const Limits& limits) {
  if (static_cast<int64_t>(spec.size()) > kMaxSpecBytes) {
    return Bad("spec", absl::StrCat("the spec has ", spec.size(), " bytes; at most ", kMaxSpecBytes,
                                    " are allowed, including an architecture of 4 MiB: send tensors in chunks"));
  }
  UploadManifest manifest{kind,   upload_id, std::move(resource_name), std::move(spec), std::move(table.tensors),
                          replace};
  int64_t total = 0;
  for (const ManifestTensor& tensor : manifest.tensors) {
    // Checked one by one, so that the sum cannot overflow.
    if (tensor.size_bytes > limits.max_upload_bytes || (total += tensor.size_bytes) > limits.max_upload_bytes) {
      const int64_t bytes = std::max(total, tensor.size_bytes);
      return OverLimit(
          "max_upload_bytes", "spec.tensors", bytes, limits.max_upload_bytes,
          absl::StrCat("the tensors have ", bytes, " bytes or more, over this server's limit of ",
                       limits.max_upload_bytes,
                       " for one upload (--max_upload_bytes); send less, or raise the limit on the server"));
    }
  }
  return manifest;
}

}  // namespace

const char* ResourceTypeOf(UploadKind kind) {
  return kind == UploadKind::kGraph ? "graph" : kind == UploadKind::kFeatures ? "feature set" : "model";
}
const char* MetricsNameOf(UploadKind kind) { return kind == UploadKind::kFeatures ? "features" : ResourceTypeOf(kind); }

int64_t UploadManifest::size_bytes() const {
  int64_t bytes = 0;
  for (const ManifestTensor& tensor : tensors) bytes += tensor.size_bytes;
  return bytes;
}

const ManifestTensor* UploadManifest::Find(std::string_view tensor) const {
  for (const ManifestTensor& one : tensors) {
    if (one.name == tensor) return &one;
  }
  return nullptr;
}

std::optional<TensorSize> UploadManifest::SizeOf(std::string_view tensor) const {
  const ManifestTensor* const found = Find(tensor);
  return found != nullptr ? std::optional<TensorSize>({found->dtype, found->size_bytes}) : std::nullopt;
}

StatusOr<UploadManifest> MakeUploadManifest(const v1::UploadGraphSpec& spec, const Limits& limits) {
  VICINAL_RETURN_IF_ERROR(CheckName(spec.name(), "spec.name"));
  VICINAL_RETURN_IF_ERROR(CheckUploadId(spec.upload_id(), "spec.upload_id"));
  VICINAL_RETURN_IF_ERROR(CheckReplace(spec.replace(), spec.if_version()));
  VICINAL_RETURN_IF_ERROR(FromProto(spec.reorder()).status());
  VICINAL_RETURN_IF_ERROR(CheckDigest(spec.ids_digest(), "spec.ids_digest"));
  VICINAL_RETURN_IF_ERROR(CheckDigest(spec.source_digest(), kSourceDigest));
  if (spec.node_count() < 1) {
    return Bad("spec.node_count",
               absl::StrCat("spec.node_count is ", spec.node_count(), "; a graph must have at least one node"));
  }
  if (spec.node_count() > limits.max_nodes)
    return OverLimit("max_nodes", "spec.node_count", spec.node_count(), limits.max_nodes);
  VICINAL_ASSIGN_OR_RETURN(TensorTable table,
                           TensorTable::Read(spec.tensors(), {"edge_index", "edge_weight", "edge_attr", "x", "x_indptr",
                                                              "x_indices", "x_values"}));
  VICINAL_ASSIGN_OR_RETURN(const ManifestTensor* edges, table.Need("edge_index"));
  VICINAL_RETURN_IF_ERROR(table.Check(*edges, kIds, {2, -1}));
  if (edges->shape[1] > limits.max_edges)
    return OverLimit("max_edges", absl::StrCat(table.FieldOf(*edges), ".shape[1]"), edges->shape[1], limits.max_edges);
  if (const ManifestTensor* weights = table.Find("edge_weight"); weights != nullptr) {
    VICINAL_RETURN_IF_ERROR(table.Check(*weights, {DataType::kFloat32}, {edges->shape[1]}));
  }
  VICINAL_RETURN_IF_ERROR(CheckEdgeFeatures(table, edges->shape[1], limits));
  VICINAL_RETURN_IF_ERROR(CheckFeatures(table, spec.node_count(), spec.feature_count(), limits).status());
  VICINAL_RETURN_IF_ERROR(CheckFeatureCount(table, spec.feature_count()));
  return Finish(UploadKind::kGraph, spec.upload_id(), spec.name(), spec.SerializeAsString(), std::move(table),
                spec.replace(), limits);
}

StatusOr<UploadManifest> MakeUploadManifest(const v1::UploadFeaturesSpec& spec, int64_t node_count, int64_t edge_count,
                                            const Limits& limits) {
  VICINAL_RETURN_IF_ERROR(CheckName(spec.graph(), "spec.graph"));
  VICINAL_RETURN_IF_ERROR(CheckName(spec.name(), "spec.name"));
  VICINAL_RETURN_IF_ERROR(CheckUploadId(spec.upload_id(), "spec.upload_id"));
  VICINAL_RETURN_IF_ERROR(CheckReplace(spec.replace(), spec.if_version()));
  VICINAL_RETURN_IF_ERROR(CheckDigest(spec.source_digest(), kSourceDigest));
  VICINAL_ASSIGN_OR_RETURN(TensorTable table,
                           TensorTable::Read(spec.tensors(), {"x", "x_indptr", "x_indices", "x_values", "edge_attr"}));
  VICINAL_ASSIGN_OR_RETURN(const bool of_nodes, CheckFeatures(table, node_count, spec.feature_count(), limits));
  const bool of_edges = table.Find("edge_attr") != nullptr;
  if (of_nodes && of_edges) {
    return Bad("spec.tensors", "a set has features of nodes or of edges: upload edge_attr as a set of its own");
  }
  if (!of_nodes && !of_edges) {
    return Bad(
        "spec.tensors",
        "no features are declared: send x, or x_indptr, x_indices and x_values, or edge_attr for features of edges");
  }
  VICINAL_RETURN_IF_ERROR(CheckEdgeFeatures(table, edge_count, limits));
  VICINAL_RETURN_IF_ERROR(CheckFeatureCount(table, spec.feature_count()));
  return Finish(UploadKind::kFeatures, spec.upload_id(), absl::StrCat(spec.graph(), "/", spec.name()),
                spec.SerializeAsString(), std::move(table), spec.replace(), limits);
}

StatusOr<UploadManifest> MakeUploadManifest(const v1::UploadModelSpec& spec, const Limits& limits) {
  VICINAL_RETURN_IF_ERROR(CheckName(spec.name(), "spec.name"));
  VICINAL_RETURN_IF_ERROR(CheckUploadId(spec.upload_id(), "spec.upload_id"));
  VICINAL_RETURN_IF_ERROR(CheckReplace(spec.replace(), spec.if_version()));
  VICINAL_RETURN_IF_ERROR(CheckDigest(spec.source_digest(), kSourceDigest));
  VICINAL_ASSIGN_OR_RETURN(TensorTable table, TensorTable::Read(spec.tensors(), {"weights", "reference"}));
  VICINAL_ASSIGN_OR_RETURN(const ManifestTensor* weights, table.Need("weights"));
  VICINAL_RETURN_IF_ERROR(table.Check(*weights, {DataType::kUint8}, {-1}));
  const ManifestTensor* reference = table.Find("reference");
  if (reference != nullptr) VICINAL_RETURN_IF_ERROR(table.Check(*reference, {DataType::kUint8}, {-1}));
  if (reference == nullptr && spec.has_reference()) {
    return Bad("spec.reference", "spec.reference is set, but the tensor 'reference' is not declared");
  }
  if (spec.has_reference()) {
    const v1::ModelReference& described = spec.reference();
    if (!described.graph().empty()) VICINAL_RETURN_IF_ERROR(CheckName(described.graph(), "spec.reference.graph"));
    if (!described.feature_set().empty())
      VICINAL_RETURN_IF_ERROR(CheckName(described.feature_set(), "spec.reference.feature_set"));
    if (!described.edge_feature_set().empty()) {
      VICINAL_RETURN_IF_ERROR(CheckName(described.edge_feature_set(), "spec.reference.edge_feature_set"));
      if (described.graph().empty()) {
        return Bad(
            "spec.reference.edge_feature_set",
            "an edge feature set belongs to a stored graph: set spec.reference.graph, or leave the set out and send "
            "edge_attr in the reference file");
      }
    }
    if (!(described.tolerance() >= 0.0 && described.tolerance() < 1.0)) {
      return Bad("spec.reference.tolerance", "the tolerance must be at least 0 and below 1; 0 means 1e-4");
    }
  }
  return Finish(UploadKind::kModel, spec.upload_id(), spec.name(), spec.SerializeAsString(), std::move(table),
                spec.replace(), limits);
}

}  // namespace vicinal::server

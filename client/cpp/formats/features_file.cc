// SPDX-License-Identifier: Apache-2.0
// Feature matrices, batches of small graphs, labels and masks: what stands beside the edges in a file.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/graph_file.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client {
namespace {

// Features travel as float32 or float16; everything else becomes float32.
Array AsFeatureValues(Array array) {
  if (array.type == ElementType::kFloat32 || array.type == ElementType::kFloat16) return array;
  return MakeArray(ToFloats(array), array.shape);
}

absl::StatusOr<Features> DenseFeatures(Array matrix, const std::string& path) {
  if (matrix.shape.size() != 2) {
    return FileError(path, 0, absl::StrCat("features have shape ", ShapeToString(matrix.shape), " instead of [N, F]"));
  }
  Features features;
  features.rows = matrix.shape[0];
  features.columns = matrix.shape[1];
  features.dense = AsFeatureValues(std::move(matrix));
  return features;
}

absl::StatusOr<std::vector<int64_t>> ReadVector(const Npz& npz, const std::string& path, const char* name) {
  CLIENT_ASSIGN_OR_RETURN(const Array array, npz.Read(name));
  if (array.shape.size() != 1) {
    return FileError(path, 0,
                     absl::StrCat(name, " has shape ", ShapeToString(array.shape), " instead of one dimension"));
  }
  absl::StatusOr<std::vector<int64_t>> values = ToInts(array);
  if (!values.ok()) return FileError(path, 0, absl::StrCat(name, ": ", values.status().message()));
  return values;
}

absl::StatusOr<Features> CsrFeatures(const Npz& npz, const std::string& path) {
  for (const char* name : {"x_indices", "x_data", "x_shape"}) {
    if (!npz.Has(name)) return FileError(path, 0, absl::StrCat("contains x_indptr but no ", name));
  }
  CLIENT_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, ReadVector(npz, path, "x_shape"));
  CLIENT_ASSIGN_OR_RETURN(const std::vector<int64_t> indptr, ReadVector(npz, path, "x_indptr"));
  CLIENT_ASSIGN_OR_RETURN(const std::vector<int64_t> columns, ReadVector(npz, path, "x_indices"));
  CLIENT_ASSIGN_OR_RETURN(Array values, npz.Read("x_data"));
  const auto count = static_cast<int64_t>(columns.size());
  if (shape.size() != 2 || shape[0] < 0 || shape[1] < 0) return FileError(path, 0, "x_shape must be [N, F]");
  if (static_cast<int64_t>(indptr.size()) - 1 != shape[0]) {
    return FileError(path, 0,
                     absl::StrCat("x_indptr has ", indptr.size(), " entries, N + 1 of x_shape is ", shape[0], " + 1"));
  }
  if (indptr.front() != 0 || indptr.back() != count || !std::is_sorted(indptr.begin(), indptr.end())) {
    return FileError(path, 0, absl::StrCat("x_indptr must rise from 0 to the ", count, " entries of x_indices"));
  }
  if (values.shape != std::vector<int64_t>{count}) {
    return FileError(path, 0,
                     absl::StrCat("x_data has shape ", ShapeToString(values.shape), ", x_indices [", count, "]"));
  }
  std::vector<int32_t> narrow;
  narrow.reserve(columns.size());
  // Columns travel as int32.
  const int64_t columns_end = std::min(shape[1], int64_t{1} << 31);
  for (const int64_t column : columns) {
    if (column < 0 || column >= columns_end) {
      return FileError(path, 0, absl::StrCat("x_indices contains ", column, ", but columns are 0..", columns_end - 1));
    }
    narrow.push_back(static_cast<int32_t>(column));
  }
  Features features;
  features.sparse = true;
  features.rows = shape[0];
  features.columns = shape[1];
  features.indptr = MakeArray(indptr, {static_cast<int64_t>(indptr.size())});
  features.indices = MakeArray(narrow, {count});
  features.values = AsFeatureValues(std::move(values));
  return features;
}

// ptr of an ascending graph_id: graph g begins at ptr[g]; numbers that do not occur are graphs without nodes.
absl::StatusOr<std::vector<int64_t>> PtrFromGraphId(const std::vector<int64_t>& graph_id, const std::string& path) {
  std::vector<int64_t> ptr = {0};
  for (size_t node = 0; node < graph_id.size(); ++node) {
    const int64_t graph = graph_id[node];
    const auto current = static_cast<int64_t>(ptr.size()) - 1;
    // A gap is graphs without nodes; a wild number must not become as many of them.
    const int64_t most = 2 * static_cast<int64_t>(graph_id.size());
    if (graph < 0 || graph < current - 1 || graph > most) {
      return FileError(path, 0, absl::StrCat("graph_id of node ", node, " is ", graph, "; it must ascend from 0"));
    }
    while (static_cast<int64_t>(ptr.size()) - 1 <= graph) ptr.push_back(static_cast<int64_t>(node));
    ptr.back() = static_cast<int64_t>(node) + 1;
  }
  return ptr;
}

// REQUIRES ends that are nodes (ReadGraphFile sees to it).
absl::Status CheckEdgesStayInside(const GraphBatchData& batch, const std::vector<int64_t>& graph_id,
                                  const std::string& path) {
  for (size_t i = 0; i < batch.sources.size(); ++i) {
    const int64_t source = batch.sources[i], target = batch.targets[i];
    if (graph_id[source] != graph_id[target]) {
      return FileError(path, 0,
                       absl::StrCat("edge ", i, " (", source, " -> ", target, ") connects graphs ", graph_id[source],
                                    " and ", graph_id[target]));
    }
  }
  return absl::OkStatus();
}

bool IsNpy(const std::string& path) {
  const std::string_view suffix(".npy");
  return path.size() > suffix.size() && path.compare(path.size() - suffix.size(), suffix.size(), suffix) == 0;
}

}  // namespace

absl::StatusOr<Features> ReadFeatures(const Npz& npz, const std::string& path) {
  if (npz.Has("x")) {
    CLIENT_ASSIGN_OR_RETURN(Array matrix, npz.Read("x"));
    return DenseFeatures(std::move(matrix), path);
  }
  if (npz.Has("x_indptr")) return CsrFeatures(npz, path);
  return absl::NotFoundError(
      absl::StrCat(path, ": contains no features (neither x nor x_indptr, x_indices, x_data, x_shape)"));
}

absl::StatusOr<Array> ReadEdgeFeatures(const std::string& path) {
  absl::StatusOr<Array> array = absl::UnknownError("");
  if (IsNpy(path)) {
    array = ReadNpy(path);
  } else {
    CLIENT_ASSIGN_OR_RETURN(const Npz npz, Npz::Open(path));
    if (!npz.Has("edge_attr")) return FileError(path, 0, "contains no edge_attr [E, A]");
    array = npz.Read("edge_attr");
  }
  if (!array.ok()) return array.status();
  const std::vector<int64_t>& shape = array->shape;
  if ((shape.size() != 1 && shape.size() != 2) || (shape.size() == 2 && shape[1] < 1)) {
    return FileError(path, 0,
                     absl::StrCat("the features of edges have shape ", ShapeToString(shape),
                                  " instead of [E, A]: one row per edge, in the order of the edges"));
  }
  return MakeArray(ToFloats(*array), {shape[0], shape.size() == 1 ? 1 : shape[1]});
}

absl::StatusOr<Features> ReadFeatures(const std::string& path) {
  if (IsNpy(path)) {
    CLIENT_ASSIGN_OR_RETURN(Array matrix, ReadNpy(path));
    return DenseFeatures(std::move(matrix), path);
  }
  CLIENT_ASSIGN_OR_RETURN(const Npz npz, Npz::Open(path));
  return ReadFeatures(npz, path);
}

absl::StatusOr<GraphBatchData> ReadGraphBatch(const std::string& path) {
  CLIENT_ASSIGN_OR_RETURN(const Npz npz, Npz::Open(path));
  if (!npz.Has("graph_id")) return FileError(path, 0, "contains no graph_id, so it is not a batch of small graphs");
  CLIENT_ASSIGN_OR_RETURN(const std::vector<int64_t> graph_id, ReadVector(npz, path, "graph_id"));
  GraphBatchData batch;
  CLIENT_ASSIGN_OR_RETURN(batch.ptr, PtrFromGraphId(graph_id, path));
  CLIENT_ASSIGN_OR_RETURN(batch.features, ReadFeatures(npz, path));
  if (batch.features.rows != static_cast<int64_t>(graph_id.size())) {
    return FileError(path, 0,
                     absl::StrCat("the features have ", batch.features.rows, " rows, graph_id ", graph_id.size()));
  }
  GraphFileOptions options;
  options.format = GraphFormat::kNpz;
  CLIENT_ASSIGN_OR_RETURN(const GraphData graph, ReadGraphFile(path, options));
  CLIENT_ASSIGN_OR_RETURN(const std::vector<int64_t> ends, ToInts(graph.edge_index));
  const auto middle = ends.begin() + static_cast<std::ptrdiff_t>(ends.size() / 2);
  batch.sources.assign(ends.begin(), middle);
  batch.targets.assign(middle, ends.end());
  if (graph.edge_weight) batch.weights = ToFloats(*graph.edge_weight);
  if (graph.edge_attr) {
    batch.edge_features = ToFloats(*graph.edge_attr);
    batch.edge_feature_width = graph.edge_attr->shape[1];
  }
  CLIENT_RETURN_IF_ERROR(CheckEdgesStayInside(batch, graph_id, path));
  if (npz.Has("graph_y")) {
    CLIENT_ASSIGN_OR_RETURN(batch.labels, ReadVector(npz, path, "graph_y"));
  }
  return batch;
}

absl::StatusOr<std::vector<int64_t>> ReadLabels(const std::string& path, const std::string& name) {
  CLIENT_ASSIGN_OR_RETURN(const Npz npz, Npz::Open(path));
  return ReadVector(npz, path, name.c_str());
}

absl::StatusOr<std::vector<int64_t>> ReadMask(const std::string& path, const std::string& name) {
  CLIENT_ASSIGN_OR_RETURN(const Npz npz, Npz::Open(path));
  CLIENT_ASSIGN_OR_RETURN(const Array mask, npz.Read(name));
  if (mask.type != ElementType::kBool || mask.shape.size() != 1) {
    return FileError(path, 0, absl::StrCat(name, " is not a mask (bool, one dimension)"));
  }
  std::vector<int64_t> nodes;
  for (size_t i = 0; i < mask.data.size(); ++i) {
    if (mask.data[i] != 0) nodes.push_back(static_cast<int64_t>(i));
  }
  return nodes;
}

}  // namespace vicinal::client

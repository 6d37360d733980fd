// SPDX-License-Identifier: Apache-2.0
// Readers of the user's files: graphs (npz, edge list, MatrixMarket), feature matrices (npz, npy), batches of small
// graphs (npz with graph_id), labels and masks. They check shapes, because errors can name the file here, and ids
// before narrowing; the server checks values.
#ifndef VICINAL_CLIENT_CPP_FORMATS_GRAPH_FILE_H_
#define VICINAL_CLIENT_CPP_FORMATS_GRAPH_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/formats/array.h"
#include "client/cpp/formats/edge_list.h"
#include "client/cpp/formats/id_map.h"
#include "client/cpp/formats/matrix_market.h"
#include "client/cpp/formats/npy.h"

namespace vicinal::client {

// A feature matrix [rows, columns]: `dense` float32|float16 [rows, columns], or CSR: indptr int64 [rows+1], indices
// int32 [nnz], values float32|float16 [nnz].
struct Features {
  bool sparse = false;
  int64_t rows = 0;
  int64_t columns = 0;
  Array dense;
  Array indptr;
  Array indices;
  Array values;
};

struct GraphData {
  int64_t node_count = 0;
  // int32|int64 [2, E]: sources, then targets.
  Array edge_index;
  // float32 [E]
  std::optional<Array> edge_weight;
  // float32 [E, A]
  std::optional<Array> edge_attr;
  std::optional<Features> features;
  // Set if the file's ids are not 0..N-1.
  std::optional<IdMap> ids;
  // Decisions of the reader, as sentences for the user.
  std::vector<std::string> notes;
};

enum class GraphFormat { kAuto, kNpz, kEdgeList, kMatrixMarket };

struct GraphFileOptions {
  // kAuto decides by the first bytes: a zip archive is npz; a MatrixMarket banner, a misspelt one or the suffix .mtx
  // means MatrixMarket; everything else is an edge list.
  GraphFormat format = GraphFormat::kAuto;
  // A separate file with the feature matrix; empty: none.
  std::string features_path;
  // A separate .npy with features of edges, [E, A] or [E], in the order of the file's edges; empty: those of an npz, if
  // it has edge_attr.
  std::string edge_features_path;
  // File with the ids in node order (edge lists only); empty: none.
  std::string ids_path;
  // Whether the first line of `ids_path` is a title. kAuto: it is an id; an error if it looks like a title and occurs
  // in no edge.
  Titles ids_title = Titles::kAuto;
  // For an edge list's first line, and its lines that begin with '#' or '%'.
  Titles titles = Titles::kAuto;
  Comments comments = Comments::kAuto;
  std::optional<int64_t> node_count;
  bool undirected = false;
  MatrixRows matrix_rows = MatrixRows::kTarget;
};

absl::StatusOr<GraphData> ReadGraphFile(const std::string& path, const GraphFileOptions& options);

// x, or x_indptr, x_indices, x_data, x_shape of an npz; the matrix of an npy. NOT_FOUND if an npz contains neither.
absl::StatusOr<Features> ReadFeatures(const std::string& path);
absl::StatusOr<Features> ReadFeatures(const Npz& npz, const std::string& path);
// Features of edges as a float32 matrix [E, A]: of an npy [E, A] or [E], or edge_attr of an npz.
absl::StatusOr<Array> ReadEdgeFeatures(const std::string& path);

// A batch of small graphs with features: graph g has the nodes [ptr[g], ptr[g+1]).
struct GraphBatchData {
  std::vector<int64_t> ptr;
  std::vector<int64_t> sources;
  std::vector<int64_t> targets;
  // Empty: none.
  std::vector<float> weights;
  // [E, edge_feature_width]; 0: none.
  std::vector<float> edge_features;
  int64_t edge_feature_width = 0;
  Features features;
  // graph_y, if present.
  std::optional<std::vector<int64_t>> labels;
};

// An npz with edge_index, features and graph_id (ascending, as in torch_geometric's Batch). INVALID_ARGUMENT also if an
// edge connects two graphs.
absl::StatusOr<GraphBatchData> ReadGraphBatch(const std::string& path);

// From an npz: a one-dimensional integer array (labels `y`), or the indices of the true entries of a bool array
// (masks).
absl::StatusOr<std::vector<int64_t>> ReadLabels(const std::string& path, const std::string& name);
absl::StatusOr<std::vector<int64_t>> ReadMask(const std::string& path, const std::string& name);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_GRAPH_FILE_H_

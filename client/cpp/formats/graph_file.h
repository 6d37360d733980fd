// SPDX-License-Identifier: Apache-2.0
// Files a user has, turned into what the server takes: graphs (npz, edge list, MatrixMarket), feature matrices (npz,
// npy), batches of small graphs (npz with graph_id), labels and masks. Shapes are checked against each other here,
// where the file's name is known; ids and values are the server's to check.
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
  std::optional<Features> features;
  // Set when the file's ids are not 0..N-1.
  std::optional<IdMap> ids;
  // What was decided, in sentences for the user.
  std::vector<std::string> notes;
};

enum class GraphFormat { kAuto, kNpz, kEdgeList, kMatrixMarket };

struct GraphFileOptions {
  // kAuto looks at the file's first bytes: a zip archive, a MatrixMarket banner or what may be meant as one (a name in
  // .mtx likewise, which is then refused where the banner is none), otherwise an edge list.
  GraphFormat format = GraphFormat::kAuto;
  // Feature matrix that comes in a file of its own; empty: none.
  std::string features_path;
  // Ids in order of node (edge lists only); empty: none.
  std::string ids_path;
  // Whether the first line of `ids_path` is a title. kAuto: it is not; but where it may be one, and stands in no edge,
  // it is refused rather than made a node.
  Titles ids_title = Titles::kAuto;
  // Of an edge list's first line, and of its lines that begin with '#' or '%'.
  Titles titles = Titles::kAuto;
  Comments comments = Comments::kAuto;
  std::optional<int64_t> node_count;
  bool undirected = false;
  MatrixRows matrix_rows = MatrixRows::kTarget;
};

absl::StatusOr<GraphData> ReadGraphFile(const std::string& path, const GraphFileOptions& options);

// x, or x_indptr, x_indices, x_data, x_shape of an npz; the matrix of an npy. NOT_FOUND when an npz holds neither.
absl::StatusOr<Features> ReadFeatures(const std::string& path);
absl::StatusOr<Features> ReadFeatures(const Npz& npz, const std::string& path);

// Small graphs one after the other: graph g has the nodes [ptr[g], ptr[g+1]), with features.
struct GraphBatchData {
  std::vector<int64_t> ptr;
  std::vector<int64_t> sources;
  std::vector<int64_t> targets;
  // Empty: none.
  std::vector<float> weights;
  Features features;
  // graph_y, when there.
  std::optional<std::vector<int64_t>> labels;
};

// An npz with edge_index, features and graph_id (ascending, as in torch_geometric's Batch). INVALID_ARGUMENT also when
// an edge joins two graphs.
absl::StatusOr<GraphBatchData> ReadGraphBatch(const std::string& path);

// A one-dimensional integer array (labels `y`) or the true positions of a bool one (masks), of an npz.
absl::StatusOr<std::vector<int64_t>> ReadLabels(const std::string& path, const std::string& name);
absl::StatusOr<std::vector<int64_t>> ReadMask(const std::string& path, const std::string& name);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_GRAPH_FILE_H_

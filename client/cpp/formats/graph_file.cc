// SPDX-License-Identifier: Apache-2.0
// One function per kind of graph file, then what all have in common: features beside it, reverse edges, packing.
#include "client/cpp/formats/graph_file.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/formats/edge_lines.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"

namespace vicinal::client {
namespace {

// What calls itself an .npz or a matrix, by its first bytes or its name, is read as one or refused. The size line of a
// matrix would be an edge of an edge list, and its ids would be off by one.
GraphFormat DetectFormat(std::string_view bytes, const std::string& path) {
  constexpr std::string_view kZip("PK\x03\x04", 4);
  if (bytes.substr(0, kZip.size()) == kZip || absl::EndsWithIgnoreCase(path, ".npz")) return GraphFormat::kNpz;
  if (HasMatrixMarketBanner(bytes) || absl::EndsWithIgnoreCase(path, ".mtx")) return GraphFormat::kMatrixMarket;
  return GraphFormat::kEdgeList;
}

// Files that people take for a graph by mistake, by their first bytes.
absl::Status CheckIsNoOther(std::string_view bytes, const std::string& path) {
  if (bytes.substr(0, 6) == std::string_view("\x93NUMPY")) {
    return FileError(
        path, 0,
        "is a single .npy array; a graph is an .npz with edge_index [2, E] (numpy.savez), a text edge list "
        "or a MatrixMarket file; pass features with --x");
  }
  if (bytes.substr(0, 2) == std::string_view("\x1F\x8B")) {
    return FileError(path, 0, "is compressed with gzip: unpack it first (gunzip)");
  }
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && bytes[first] == '{') {
    return FileError(path, 0,
                     "looks like JSON, which is not a graph format; --format edgelist reads it as an edge list");
  }
  return absl::OkStatus();
}

// What other formats say themselves.
absl::Status CheckOnlyEdgeLists(const std::string& path, const GraphFileOptions& options) {
  if (!options.ids_path.empty()) return FileError(path, 0, "--ids works with edge lists only");
  if (options.titles != Titles::kAuto) return FileError(path, 0, "--titles works with edge lists only");
  if (options.comments != Comments::kAuto) return FileError(path, 0, "--comments works with edge lists only");
  return absl::OkStatus();
}

// What only MatrixMarket files leave open.
absl::Status CheckOnlyMatrices(const std::string& path, const GraphFileOptions& options) {
  if (options.matrix_rows == MatrixRows::kTarget) return absl::OkStatus();
  return FileError(path, 0, "--mtx_rows works with MatrixMarket files only");
}

// Rows of the first array that determines N; -1 if none does.
absl::StatusOr<int64_t> NodeCountOf(const Npz& npz, const std::optional<Features>& features) {
  for (const char* name : {"y", "graph_id"}) {
    if (!npz.Has(name)) continue;
    CLIENT_ASSIGN_OR_RETURN(const Array array, npz.Read(name));
    if (array.shape.size() == 1) return array.shape[0];
  }
  return features ? features->rows : -1;
}

// One more than the largest id; the largest of all int64 cannot be counted so, and stays outside.
int64_t NodeCountOf(const Edges& edges) {
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max() - 1;
  int64_t count = 0;
  for (const std::vector<int64_t>* side : {&edges.sources, &edges.targets}) {
    for (const int64_t node : *side) count = std::max(count, std::min(node, kLast) + 1);
  }
  return count;
}

// Features of edges as they stand in a file: [E, A], or [E] for one each.
absl::Status TakeEdgeFeatures(const Array& array, const std::string& path, Edges* edges) {
  const std::vector<int64_t>& shape = array.shape;
  const bool one_each = shape.size() == 1;
  if ((!one_each && shape.size() != 2) || shape[0] != edges->size() || (!one_each && shape[1] < 1)) {
    return FileError(path, 0,
                     absl::StrCat("edge_attr has shape ", ShapeToString(shape), " instead of [", edges->size(),
                                  ", A]: one row per edge, in the order of the edges"));
  }
  edges->features = ToFloats(array);
  edges->feature_width = one_each ? 1 : shape[1];
  return absl::OkStatus();
}

absl::Status ReadEdgeIndex(const Npz& npz, const std::string& path, const GraphFileOptions& options, Edges* edges) {
  CLIENT_ASSIGN_OR_RETURN(const Array array, npz.Read("edge_index"));
  if (array.shape.size() != 2 || array.shape[0] != 2) {
    const bool turned = array.shape.size() == 2 && array.shape[1] == 2;
    return FileError(path, 0,
                     absl::StrCat("edge_index has shape ", ShapeToString(array.shape), " instead of [2, E]",
                                  turned ? ": save edge_index.T" : ""));
  }
  absl::StatusOr<std::vector<int64_t>> values = ToInts(array);
  if (!values.ok()) return FileError(path, 0, absl::StrCat("edge_index: ", values.status().message()));
  *edges = UnpackEdgeIndex(*values);
  if (npz.Has("edge_attr") && options.edge_features_path.empty()) {
    CLIENT_ASSIGN_OR_RETURN(const Array features, npz.Read("edge_attr"));
    CLIENT_RETURN_IF_ERROR(TakeEdgeFeatures(features, path, edges));
  }
  if (!npz.Has("edge_weight")) return absl::OkStatus();
  CLIENT_ASSIGN_OR_RETURN(const Array weight, npz.Read("edge_weight"));
  if (weight.shape != std::vector<int64_t>{edges->size()}) {
    return FileError(
        path, 0,
        absl::StrCat("edge_weight has shape ", ShapeToString(weight.shape), " instead of [", edges->size(), "]"));
  }
  edges->weights = ToFloats(weight);
  return absl::OkStatus();
}

absl::StatusOr<EdgeFile> ReadNpzGraph(const std::string& path, const GraphFileOptions& options,
                                      std::optional<Features>* features) {
  CLIENT_ASSIGN_OR_RETURN(const Npz npz, Npz::Open(path));
  EdgeFile file;
  CLIENT_RETURN_IF_ERROR(ReadEdgeIndex(npz, path, options, &file.edges));
  absl::StatusOr<Features> own = ReadFeatures(npz, path);
  if (!own.ok() && !absl::IsNotFound(own.status())) return own.status();
  if (own.ok() && !*features) *features = *std::move(own);
  CLIENT_ASSIGN_OR_RETURN(file.node_count, NodeCountOf(npz, *features));
  if (options.node_count) {
    file.node_count = *options.node_count;
  } else if (file.node_count < 0) {
    file.node_count = NodeCountOf(file.edges);
    file.notes.push_back(absl::StrCat("the file does not state the number of nodes; from the largest id it is ",
                                      file.node_count, " (--num_nodes N sets it)"));
  }
  return file;
}

// A title, or words where the next line has a number, or the number that pandas makes up where there was no title.
bool LooksLikeTitle(const std::string& first, const std::string& second) {
  static constexpr std::string_view kWords[] = {"id",   "ids",   "node",  "nodes", "node_id", "nodeid",
                                                "name", "names", "label", "key",   "index",   "user_id"};
  const std::string lower = absl::AsciiStrToLower(first);
  if (IsEdgeTitle(lower) || std::find(std::begin(kWords), std::end(kWords), lower) != std::end(kWords)) return true;
  int64_t number;
  return ParseInt(second, &number) ? !ParseInt(first, &number) : first == "0";
}

// A title among the ids would be a node that nobody has.
absl::Status CheckFirstId(const IdMap& ids, const Edges& edges, const std::string& path) {
  if (ids.size() < 2 || !LooksLikeTitle(ids.IdOf(0), ids.IdOf(1))) return absl::OkStatus();
  for (const std::vector<int64_t>* side : {&edges.sources, &edges.targets}) {
    if (std::find(side->begin(), side->end(), 0) != side->end()) return absl::OkStatus();
  }
  return FileError(
      path, ids.header().empty() ? 1 : 2,
      absl::StrCat("is it a title or an id? ", Shown(ids.IdOf(0)),
                   " occurs in no edge: --ids_title yes skips the line, --ids_title no reads it as an id"));
}

absl::StatusOr<EdgeFile> ReadTextGraph(const std::string& path, const std::string& text, GraphFormat format,
                                       const GraphFileOptions& options, const std::optional<Features>& features) {
  if (format == GraphFormat::kMatrixMarket) {
    // The banner first: an edge list called .mtx learns what it was taken for, not that an option does not suit it.
    CLIENT_ASSIGN_OR_RETURN(EdgeFile file, ParseMatrixMarket(text, path, options.matrix_rows));
    CLIENT_RETURN_IF_ERROR(CheckOnlyEdgeLists(path, options));
    if (options.node_count && *options.node_count != file.node_count) {
      return FileError(
          path, 0, absl::StrCat("the matrix has ", file.node_count, " rows, --num_nodes says ", *options.node_count));
    }
    return file;
  }
  CLIENT_RETURN_IF_ERROR(CheckOnlyMatrices(path, options));
  EdgeListOptions list;
  list.titles = options.titles;
  list.comments = options.comments;
  list.node_count = options.node_count;
  if (features) list.feature_rows = features->rows;
  if (options.ids_path.empty()) return ParseEdgeList(text, path, list);
  const bool titled = options.ids_title == Titles::kYes;
  CLIENT_ASSIGN_OR_RETURN(const IdMap ids, IdMap::Load(options.ids_path, titled));
  list.ids = &ids;
  CLIENT_ASSIGN_OR_RETURN(EdgeFile file, ParseEdgeList(text, path, list));
  if (options.ids_title == Titles::kAuto) CLIENT_RETURN_IF_ERROR(CheckFirstId(ids, file.edges, options.ids_path));
  if (titled) file.notes.push_back(absl::StrCat("the first line of ", options.ids_path, " was taken as a title"));
  return file;
}

}  // namespace

absl::StatusOr<GraphData> ReadGraphFile(const std::string& path, const GraphFileOptions& options) {
  if (options.ids_title != Titles::kAuto && options.ids_path.empty()) {
    return absl::InvalidArgumentError("--ids_title describes the file of --ids, so it needs --ids");
  }
  GraphData graph;
  if (!options.features_path.empty()) {
    CLIENT_ASSIGN_OR_RETURN(graph.features, ReadFeatures(options.features_path));
  }
  std::string text;
  GraphFormat format = options.format;
  if (format != GraphFormat::kNpz) {
    CLIENT_ASSIGN_OR_RETURN(text, ReadFile(path));
    if (format == GraphFormat::kAuto) {
      CLIENT_RETURN_IF_ERROR(CheckIsNoOther(text, path));
      format = DetectFormat(text, path);
    }
  }
  EdgeFile file;
  if (format == GraphFormat::kNpz) {
    CLIENT_RETURN_IF_ERROR(CheckOnlyEdgeLists(path, options));
    CLIENT_RETURN_IF_ERROR(CheckOnlyMatrices(path, options));
    CLIENT_ASSIGN_OR_RETURN(file, ReadNpzGraph(path, options, &graph.features));
  } else {
    CLIENT_ASSIGN_OR_RETURN(file, ReadTextGraph(path, text, format, options, graph.features));
  }
  if (graph.features && graph.features->rows != file.node_count) {
    return FileError(
        options.features_path.empty() ? path : options.features_path, 0,
        absl::StrCat("the features have ", graph.features->rows, " rows, but the graph has ", file.node_count, " nodes",
                     !file.ids ? ""
                     : options.ids_path.empty()
                         ? " (the number of distinct ids; --ids FILE lists all ids in the order of "
                           "the rows, including those without an edge)"
                         : absl::StrCat(", as many as ", options.ids_path, " lists",
                                        file.node_count == graph.features->rows + 1
                                            ? " (its first line counts; --ids_title yes skips it)"
                                            : "")));
  }
  CLIENT_RETURN_IF_ERROR(CheckEnds(file.edges, file.node_count, path));
  if (!options.edge_features_path.empty()) {
    CLIENT_ASSIGN_OR_RETURN(const Array features, ReadNpy(options.edge_features_path));
    CLIENT_RETURN_IF_ERROR(TakeEdgeFeatures(features, options.edge_features_path, &file.edges));
  }
  graph.notes = std::move(file.notes);
  if (options.undirected) {
    const int64_t added = AddReverseEdges(&file.edges);
    graph.notes.push_back(absl::StrCat("undirected: added ", added, " reverse edges"));
  }
  graph.node_count = file.node_count;
  graph.edge_index = PackEdgeIndex(file.edges, file.node_count);
  if (!file.edges.weights.empty()) graph.edge_weight = MakeArray(file.edges.weights, {file.edges.size()});
  if (const int64_t width = file.edges.feature_width; width > 0) {
    graph.edge_attr = MakeArray(file.edges.features, {file.edges.size(), width});
  }
  graph.ids = std::move(file.ids);
  return graph;
}

}  // namespace vicinal::client

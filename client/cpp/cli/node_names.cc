// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/node_names.h"

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/ids_file.h"
#include "client/cpp/errors.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/not_finite.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"

namespace vicinal::client::cli {
namespace {

// `values`: [E] or [E, A]; `name` as in the file; `edge` describes the edge of a row, from 0, or gives "".
template <class Edge>
absl::Status CheckRows(const Array& values, const char* name, const std::string& path, const Edge& edge) {
  const std::optional<NotFinite> found = FindNotFinite(values);
  if (!found) return absl::OkStatus();
  const std::string column = values.shape.size() == 2 ? absl::StrCat(" in column ", found->column) : "";
  std::string ends = edge(static_cast<size_t>(found->row));
  if (!ends.empty()) ends = absl::StrCat(" (", ends, ")");
  return FileError(path, 0,
                   absl::StrCat(name, " of edge ", found->row, ends, " contains ", found->value, column,
                                "; every value must be finite as a float32"));
}

}  // namespace

absl::Status WithNodeName(const Context& context, const std::string& graph, const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  const auto named = details.metadata.find("node");
  int64_t node = 0;
  if (named == details.metadata.end() || !ParseInt(named->second, &node)) return status;
  const std::optional<IdMap> ids = KnownIds(context, graph);
  if (!ids || node < 0 || node >= ids->size()) return status;
  return AddToMessage(status, absl::StrCat("; node ", node, " is '", ids->IdOf(node), "'"));
}

absl::Status CheckFinite(const Features& features, const std::string& path, const std::optional<IdMap>& ids) {
  const std::optional<NotFinite> found = FindNotFinite(features);
  if (!found) return absl::OkStatus();
  const bool known = ids && found->row < ids->size();
  return FileError(
      path, 0,
      absl::StrCat("the features of node ", found->row, known ? absl::StrCat(" ('", ids->IdOf(found->row), "')") : "",
                   " contain ", found->value, " in column ", found->column,
                   "; every value must be finite as a float32"));
}

absl::Status CheckEdgesFinite(const GraphData& graph, const std::string& path, const std::string& attr_path) {
  const int64_t edges = graph.edge_index.element_count() / 2;
  const auto edge = [&](size_t row) {
    const std::vector<int64_t> ends = *ToInts(graph.edge_index);
    const auto id = [&](int64_t node) { return graph.ids ? graph.ids->IdOf(node) : absl::StrCat(node); };
    return absl::StrCat(id(ends[row]), " -> ", id(ends[row + static_cast<size_t>(edges)]));
  };
  if (graph.edge_weight) CLIENT_RETURN_IF_ERROR(CheckRows(*graph.edge_weight, "edge_weight", path, edge));
  if (!graph.edge_attr) return absl::OkStatus();
  return CheckRows(*graph.edge_attr, "edge_attr", attr_path.empty() ? path : attr_path, edge);
}

absl::Status CheckEdgesFinite(const Array& features, const std::string& path) {
  return CheckRows(features, "edge_attr", path, [](size_t) { return std::string(); });
}

absl::Status CheckEdgesFinite(const GraphBatchData& batch, const std::string& path) {
  const auto edges = static_cast<int64_t>(batch.sources.size());
  const auto edge = [&](size_t row) { return absl::StrCat(batch.sources[row], " -> ", batch.targets[row]); };
  if (!batch.weights.empty()) {
    CLIENT_RETURN_IF_ERROR(CheckRows(MakeArray(batch.weights, {edges}), "edge_weight", path, edge));
  }
  if (batch.edge_feature_width == 0) return absl::OkStatus();
  return CheckRows(MakeArray(batch.edge_features, {edges, batch.edge_feature_width}), "edge_attr", path, edge);
}

}  // namespace vicinal::client::cli

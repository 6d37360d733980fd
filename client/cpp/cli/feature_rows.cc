// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/feature_rows.h"

#include "absl/strings/str_cat.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::cli {

absl::Status CheckFeatureRows(Client& client, const std::string& graph, v1::FeatureKind kind, int64_t rows,
                              const std::string& path) {
  CLIENT_ASSIGN_OR_RETURN(const v1::Graph there, client.GetGraph(graph));
  const bool edges = kind == v1::FEATURE_KIND_EDGES;
  const int64_t needed = edges ? there.edge_count() : there.node_count();
  if (there.state() != v1::Graph::STATE_READY || rows == needed) return absl::OkStatus();
  return FileError(path, 0,
                   absl::StrCat("the features have ", rows, " rows, but graph '", graph, "' has ", needed,
                                edges ? " edges: one row per edge is needed, in the order of the upload, "
                                        "in which --undirected puts the reverse edges that it adds last"
                                      : " nodes"));
}

}  // namespace vicinal::client::cli

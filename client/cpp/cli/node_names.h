// SPDX-License-Identifier: Apache-2.0
// Adds the user's ids to errors about nodes: the server knows row numbers only.
#ifndef VICINAL_CLIENT_CPP_CLI_NODE_NAMES_H_
#define VICINAL_CLIENT_CPP_CLI_NODE_NAMES_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/formats/graph_file.h"
#include "client/cpp/formats/id_map.h"

namespace vicinal::client::cli {

// If the error's details name a node of `graph` (metadata `node`) and the map of its ids is available, appends the id
// to the message. Returns other statuses unchanged.
absl::Status WithNodeName(const Context& context, const std::string& graph, const absl::Status& status);

// An error, with file, node and column, if a feature is not finite.
absl::Status CheckFinite(const Features& features, const std::string& path, const std::optional<IdMap>& ids);

// The same of edges: an error, with file, edge and column, if a weight or a feature is not finite. `attr_path`: the
// file of the features, empty if they came with the edges.
absl::Status CheckEdgesFinite(const GraphData& graph, const std::string& path, const std::string& attr_path);
absl::Status CheckEdgesFinite(const GraphBatchData& batch, const std::string& path);
// Of features [E, A] without their edges.
absl::Status CheckEdgesFinite(const Array& features, const std::string& path);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_NODE_NAMES_H_

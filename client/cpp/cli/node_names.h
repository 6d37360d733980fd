// SPDX-License-Identifier: Apache-2.0
// What is wrong with a node, in the user's words: the server knows rows, the map of ids lies here.
#ifndef VICINAL_CLIENT_CPP_CLI_NODE_NAMES_H_
#define VICINAL_CLIENT_CPP_CLI_NODE_NAMES_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/formats/graph_file.h"
#include "client/cpp/formats/id_map.h"

namespace vicinal::client::cli {

// A refusal whose details name a node of `graph` (metadata `node`), with its id added to the message where the graph
// has ids of its own and their map is at hand. Others as they are.
absl::Status WithNodeName(const Context& context, const std::string& graph, const absl::Status& status);

// Refuses features with a value that is not finite, by file, node and column.
absl::Status CheckFinite(const Features& features, const std::string& path, const std::optional<IdMap>& ids);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_NODE_NAMES_H_

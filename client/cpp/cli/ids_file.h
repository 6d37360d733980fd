// SPDX-License-Identifier: Apache-2.0
// Where a graph's own ids are kept between commands. `graph upload` writes the map beside the user (GRAPH.ids.txt in
// the current folder, or --ids_out); its header names the very version it belongs to, so that later commands can take
// it up by themselves and never take a stale one: only when the header equals what the server says of the graph today.
#ifndef VICINAL_CLIENT_CPP_CLI_IDS_FILE_H_
#define VICINAL_CLIENT_CPP_CLI_IDS_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/formats/id_map.h"

namespace vicinal::client::cli {

// "GRAPH.ids.txt"
std::string DefaultIdsPath(const std::string& graph);

// The header of a map of this graph: name, version, time of creation, nodes.
std::string IdsHeader(const v1::Graph& graph);

// Refuses, before an upload begins, a path that cannot be written, or (when it is the default one) one that holds
// something else.
absl::Status CheckIdsPath(const std::string& path, bool is_default);

// The map to speak with the user about `graph`: --ids FILE (refused when it is of another graph or of another number of
// nodes), or the default file when its header fits, or none (--ids none, or no file). A default file that is stale is
// refused when --nodes names nodes, which could be ids or row numbers.
absl::StatusOr<std::optional<IdMap>> FindIds(const Context& context, const std::string& graph);

// How nodes are shown: the user's own id, or the number.
std::string NodeName(const std::optional<IdMap>& ids, int64_t node);

// The nodes that --nodes names: "0,5,9", "@FILE" (one a line, or an .npy of integers), with a map in the user's own
// ids. nullopt for "all".
absl::StatusOr<std::optional<std::vector<int64_t>>> ParseNodes(const std::string& text,
                                                               const std::optional<IdMap>& ids);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_IDS_FILE_H_

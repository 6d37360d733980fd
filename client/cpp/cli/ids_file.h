// SPDX-License-Identifier: Apache-2.0
// Where a graph's own ids are kept between commands. `graph upload` writes the map beside the user (GRAPH.ids.txt in
// the current folder, or --ids_out) and leaves a digest of the ids with the graph on the server. By that digest later
// commands know that a graph has ids of its own, wherever they run, and whether a map is the right one: what --nodes
// names is never taken for row numbers where it might be ids.
#ifndef VICINAL_CLIENT_CPP_CLI_IDS_FILE_H_
#define VICINAL_CLIENT_CPP_CLI_IDS_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
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

// The map of a graph that is being uploaded, beside `path` (PATH.new) until the upload has ended: a graph that is
// replaced without its new ids could not be asked about by them any more, and a disk may be full. What `path` holds
// stays until then.
class StagedIds {
 public:
  // Writes the map. Nothing is staged where `path` is no regular file: there is nothing to lose.
  static absl::StatusOr<StagedIds> Write(const IdMap& ids, const std::string& path, const std::string& graph);
  StagedIds(StagedIds&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  StagedIds& operator=(StagedIds&&) = delete;
  // Takes away what is staged, unless it was to stay.
  ~StagedIds();

  // After the upload: writes the map to `path`, with the header of the graph as it is now. Where that fails what is
  // staged stays, and the error names it.
  absl::Status Keep(const IdMap& ids, const std::string& path, const v1::Graph& graph);

 private:
  explicit StagedIds(std::string path) : path_(std::move(path)) {}

  std::string path_;  // of what is staged; empty: nothing
};

// The map to speak with the user about `graph`: --ids FILE, or the default file, or none (--ids none, or a graph
// without ids of its own). --ids FILE is refused when it is of another graph, of another number of nodes, or of other
// ids than the graph was uploaded with; where the server knows of none, a note says that nothing could be checked.
// Where the graph has ids of its own and their map is not found, or a default file is stale, --nodes is refused;
// without --nodes a note says that the answer speaks row numbers.
// Notes are sentences for the user.
absl::StatusOr<std::optional<IdMap>> FindIds(const Context& context, const std::string& graph,
                                             std::vector<std::string>* notes);

// The map of a graph's own ids for messages, where it is at hand and is certainly the right one: --ids FILE, or the
// default file. Says nothing where it is not.
std::optional<IdMap> KnownIds(const Context& context, const std::string& graph);

// How nodes are shown: the user's own id, or the number.
std::string NodeName(const std::optional<IdMap>& ids, int64_t node);

// The nodes that --nodes names: "0,5,9", "@FILE" (one a line, or an .npy of integers), with a map in the user's own
// ids, in an .npy as well; an id that holds a comma in double quotes, or on a line of its own. nullopt for "all".
// `--ids none` was said: no hint at --ids.
absl::StatusOr<std::optional<std::vector<int64_t>>> ParseNodes(const std::string& text, const std::optional<IdMap>& ids,
                                                               bool as_rows = false);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_IDS_FILE_H_

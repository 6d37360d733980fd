// SPDX-License-Identifier: Apache-2.0
// Files with a graph's own ids. `graph upload` writes the map to GRAPH.ids.txt in the current folder, or to --ids_out,
// and stores a digest of the ids with the graph on the server. From the digest, later commands know on any machine that
// a graph has ids of its own, and whether a map is the right one. --nodes is never read as row numbers if it might
// contain ids.
#ifndef VICINAL_CLIENT_CPP_CLI_IDS_FILE_H_
#define VICINAL_CLIENT_CPP_CLI_IDS_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

// An error if `path` cannot be written or, for the default path, contains something other than ids. Call it before the
// upload.
absl::Status CheckIdsPath(const std::string& path, bool is_default);

// The map of a graph that is being uploaded, in PATH.new until the upload has ended. Writing it first ensures that the
// disk has space: a graph that was replaced without its new ids could no longer be queried by ids. `path` keeps its
// content until then.
class StagedIds {
 public:
  // Writes the map. Stages nothing if `path` is a special file, whose content cannot be lost.
  static absl::StatusOr<StagedIds> Write(const IdMap& ids, const std::string& path, const std::string& graph);
  StagedIds(StagedIds&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  StagedIds& operator=(StagedIds&&) = delete;
  // Deletes the staged file, unless Keep failed.
  ~StagedIds();

  // After the upload: writes the map to `path`, with the header of the uploaded graph. If that fails, the staged file
  // stays, and the error names it.
  absl::Status Keep(const IdMap& ids, const std::string& path, const v1::Graph& graph);

 private:
  explicit StagedIds(std::string path) : path_(std::move(path)) {}

  std::string path_;  // of the staged file; empty: none
};

// The map of the ids of `graph`: --ids FILE, or the default file, or none (--ids none, or a graph without ids of its
// own). An error if FILE belongs to another graph, or has another number of nodes or other ids than the uploaded graph;
// if the server has no digest, a note says that the file could not be checked. If the graph has ids of its own, but the
// map is missing or the default file is stale, --nodes is an error; without --nodes, a note says that the answer uses
// row numbers. Notes are sentences for the user.
absl::StatusOr<std::optional<IdMap>> FindIds(const Context& context, const std::string& graph,
                                             std::vector<std::string>* notes);

// The map of a graph's own ids, for error messages: --ids FILE or the default file, if it exists and matches the
// digest. Otherwise nullopt, without a note.
std::optional<IdMap> KnownIds(const Context& context, const std::string& graph);

// The name of a node in output: the user's own id, or the number.
std::string NodeName(const std::optional<IdMap>& ids, int64_t node);

// The nodes that --`option` names: "0,5,9" or "@FILE" (one per line, or an .npy of integers). With a map these are the
// user's own ids, also in an .npy; an id that contains a comma is in double quotes, or on a line of its own. nullopt
// for "all". `as_rows`: --ids none was given, so errors do not suggest --ids.
absl::StatusOr<std::optional<std::vector<int64_t>>> ParseNodes(const std::string& text, const std::optional<IdMap>& ids,
                                                               bool as_rows = false, std::string_view option = "nodes");

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_IDS_FILE_H_

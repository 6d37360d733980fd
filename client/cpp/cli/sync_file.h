// SPDX-License-Identifier: Apache-2.0
// The file of `vicinal sync`: which graphs, feature sets and models servers shall have (docs/sync.md). YAML; JSON is
// YAML, too. Reading it opens no other file. Errors name file and line.
#ifndef VICINAL_CLIENT_CPP_CLI_SYNC_FILE_H_
#define VICINAL_CLIENT_CPP_CLI_SYNC_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace vicinal::client::cli {

// One graph, feature set or model. `files` and `options` have the names of docs/sync.md. Paths are relative to the
// folder of the sync file in the file, and ready to open here. Options that have their default value are left out, so
// that writing them down changes nothing.
struct DeclaredResource {
  std::string name;
  int64_t line = 0;  // of its name, from 1
  std::map<std::string, std::string> files;
  std::map<std::string, std::string> options;

  // The path or word of that name, or `otherwise`.
  std::string File(const std::string& key) const;
  std::string Option(const std::string& key, const std::string& otherwise) const;
};

struct DeclaredGraph : DeclaredResource {
  std::vector<DeclaredResource> feature_sets, edge_feature_sets;
};

struct SyncFile {
  std::string path;
  std::vector<std::string> servers;  // addresses; empty: not said
  std::vector<DeclaredGraph> graphs;
  std::vector<DeclaredResource> models;
};

// INVALID_ARGUMENT "PATH:LINE: ...": no YAML, an unknown, missing or repeated key, a value of another kind.
absl::StatusOr<SyncFile> ReadSyncFile(const std::string& path);
// The same of `text`, as if it stood in the file `path`.
absl::StatusOr<SyncFile> ParseSyncFile(const std::string& path, const std::string& text);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_SYNC_FILE_H_

// SPDX-License-Identifier: Apache-2.0
// Maps a user's own ids (numbers with gaps, strings) to the nodes 0..N-1 that the server knows. The map is stored in a
// text file with one id per line: line i (from 0, without the header) is node i. The optional header is a first line "#
// vicinal ids: ...". Lines are read like edge lists with commas: an id that contains a comma, begins with a double
// quote, or begins or ends with a space is in double quotes (RFC 4180). Memory: each id twice.
#ifndef VICINAL_CLIENT_CPP_FORMATS_ID_MAP_H_
#define VICINAL_CLIENT_CPP_FORMATS_ID_MAP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace vicinal::client {

inline constexpr std::string_view kIdMapHeader = "# vicinal ids: ";

class IdMap {
 public:
  // Node i is ids[i]. INVALID_ARGUMENT: an id is empty, contains a line break, or occurs twice.
  static absl::StatusOr<IdMap> FromIds(std::vector<std::string> ids);
  // Reads a file as written by Save; lines may end with CR LF. `titled`: skips the first line (after the header).
  // INVALID_ARGUMENT, with file and line: a line is empty or has several columns, an id occurs twice, or the file is
  // not text (CheckText).
  static absl::StatusOr<IdMap> Load(const std::string& path, bool titled = false);

  // Writes the ids, in double quotes where necessary. The first line is kIdMapHeader and `header`.
  absl::Status Save(const std::string& path, std::string_view header) const;

  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  // REQUIRES 0 <= node < size().
  const std::string& IdOf(int64_t node) const { return ids_[static_cast<size_t>(node)]; }
  std::optional<int64_t> NodeOf(std::string_view id) const;
  // Digest of the ids and their order, without the header; uploads store it with the graph
  // (UploadGraphSpec.ids_digest).
  std::string Digest() const;
  // The text after kIdMapHeader in the loaded file; empty without a header.
  const std::string& header() const { return header_; }

 private:
  // Adds `id` as the next node. If the id exists already, adds nothing and returns its node.
  std::optional<int64_t> Add(std::string id);

  std::vector<std::string> ids_;
  absl::flat_hash_map<std::string, int64_t> nodes_;
  std::string header_;
};

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_ID_MAP_H_

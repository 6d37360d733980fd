// SPDX-License-Identifier: Apache-2.0
// A user's own ids (numbers with gaps, strings) beside the nodes 0..N-1 that the server knows. It is kept in a text
// file: one id a line, line i (from 0, not counting the header) is node i; the header, if there, is a first line "#
// vicinal ids: ...". A line is read as edge lists between commas are: an id that holds a comma, begins with a double
// quote, or has a space at an end stands in double quotes (RFC 4180). Memory: each id twice.
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
  // Node i is ids[i]. INVALID_ARGUMENT: an id is empty, holds a line break, or stands twice.
  static absl::StatusOr<IdMap> FromIds(const std::vector<std::string>& ids);
  // Reads a file as Save writes it; lines may end with CR LF. `titled`: the first line (after the header) is no id and
  // is left out. INVALID_ARGUMENT, with file and line: a line is empty or holds several columns, an id stands twice, or
  // this is no text (CheckText).
  static absl::StatusOr<IdMap> Load(const std::string& path, bool titled = false);

  // Writes the ids, in double quotes where they have to be; `header` becomes the first line after kIdMapHeader.
  absl::Status Save(const std::string& path, std::string_view header) const;

  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  // REQUIRES 0 <= node < size().
  const std::string& IdOf(int64_t node) const { return ids_[static_cast<size_t>(node)]; }
  std::optional<int64_t> NodeOf(std::string_view id) const;
  // Tells this list of ids from others: what an upload leaves with the graph (UploadGraphSpec.ids_digest). Of the ids
  // and their order alone; a header does not count.
  std::string Digest() const;
  // What follows kIdMapHeader in the file it was loaded from; empty without a header.
  const std::string& header() const { return header_; }

 private:
  // Takes `id` for the next node. The node that has it already, if there is one: then nothing is taken.
  std::optional<int64_t> Add(std::string id);

  std::vector<std::string> ids_;
  absl::flat_hash_map<std::string, int64_t> nodes_;
  std::string header_;
};

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_ID_MAP_H_

// SPDX-License-Identifier: Apache-2.0
// Ids there and back. The file is plain text on purpose: `paste` and `grep -n` work on it.
#include "client/cpp/formats/id_map.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"
#include "proto/wire/crc32c.h"

namespace vicinal::client {

absl::StatusOr<IdMap> IdMap::FromIds(std::vector<std::string> ids) {
  IdMap map;
  map.nodes_.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i].empty() || ids[i].find_first_of("\r\n") != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("the id of node ", i, " is empty or holds a line break"));
    }
    const auto [at, inserted] = map.nodes_.emplace(ids[i], static_cast<int64_t>(i));
    if (!inserted) {
      return absl::InvalidArgumentError(
          absl::StrCat("the id '", ids[i], "' stands twice, for node ", at->second, " and for node ", i));
    }
  }
  map.ids_ = std::move(ids);
  return map;
}

absl::StatusOr<IdMap> IdMap::Load(const std::string& path) {
  CLIENT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<std::string> ids;
  std::string header;
  LineReader lines(text);
  std::string_view line;
  while (lines.Next(&line)) {
    if (lines.number() == 1 && line.substr(0, kIdMapHeader.size()) == kIdMapHeader) {
      header = std::string(line.substr(kIdMapHeader.size()));
      continue;
    }
    if (line.empty()) return FileError(path, lines.number(), "an empty line where an id belongs");
    ids.emplace_back(line);
  }
  if (ids.empty()) return FileError(path, 0, "holds no ids");
  absl::StatusOr<IdMap> map = FromIds(std::move(ids));
  if (!map.ok()) return FileError(path, 0, std::string(map.status().message()));
  map->header_ = std::move(header);
  return map;
}

absl::Status IdMap::Save(const std::string& path, std::string_view header) const {
  std::string text(kIdMapHeader);
  text.append(header).push_back('\n');
  for (const std::string& id : ids_) text.append(id).push_back('\n');
  return WriteFile(path, text);
}

std::string IdMap::Digest() const {
  uint32_t crc = 0;
  for (const std::string& id : ids_) {
    crc = wire::Crc32c(id.data(), id.size(), crc);
    crc = wire::Crc32c("\n", 1, crc);
  }
  return absl::StrFormat("crc32c:%08x", crc);
}

std::optional<int64_t> IdMap::NodeOf(std::string_view id) const {
  const auto found = nodes_.find(absl::string_view(id.data(), id.size()));
  if (found == nodes_.end()) return std::nullopt;
  return found->second;
}

}  // namespace vicinal::client

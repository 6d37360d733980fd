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

namespace {

// The id that a line holds.
absl::StatusOr<std::string> ReadId(std::string_view line, const std::string& path, int64_t number, LineFields* fields) {
  if (Trim(line).empty()) return FileError(path, number, "an empty line instead of an id: remove it");
  const absl::Status split = SplitFields(line, ',', fields);
  if (!split.ok()) return FileError(path, number, std::string(split.message()));
  const std::vector<std::string_view>& values = fields->values;
  if (values.size() > 1) {
    return FileError(path, number,
                     absl::StrCat(values.size(), " columns separated by commas instead of one id",
                                  values.back().empty() ? ": remove the comma at the end of the line" : "",
                                  "; put an id that contains a comma in double quotes (\"Doe, John\")"));
  }
  if (values[0].empty()) return FileError(path, number, "an id is empty");
  return std::string(values[0]);
}

}  // namespace

std::optional<int64_t> IdMap::Add(std::string id) {
  const auto [at, inserted] = nodes_.emplace(id, size());
  if (!inserted) return at->second;
  ids_.push_back(std::move(id));
  return std::nullopt;
}

absl::StatusOr<IdMap> IdMap::FromIds(std::vector<std::string> ids) {
  IdMap map;
  map.nodes_.reserve(ids.size());
  map.ids_.reserve(ids.size());
  for (std::string& id : ids) {
    const int64_t node = map.size();
    if (id.empty() || id.find_first_of("\r\n") != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("the id of node ", node, " is empty or contains a line break"));
    }
    if (const std::optional<int64_t> other = map.Add(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the id ", Shown(id), " occurs twice, for node ", *other, " and for node ", node));
    }
  }
  return map;
}

absl::StatusOr<IdMap> IdMap::Load(const std::string& path, bool titled) {
  CLIENT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  CLIENT_RETURN_IF_ERROR(CheckText(text, path));
  IdMap map;
  int64_t first_line = 1;
  LineReader lines(text);
  std::string_view line;
  LineFields fields;
  while (lines.Next(&line)) {
    if (lines.number() == 1 && line.substr(0, kIdMapHeader.size()) == kIdMapHeader) {
      map.header_ = std::string(line.substr(kIdMapHeader.size()));
      first_line = 2;
      continue;
    }
    if (titled) {
      titled = false;
      ++first_line;
      continue;
    }
    CLIENT_ASSIGN_OR_RETURN(const std::string id, ReadId(line, path, lines.number(), &fields));
    if (const std::optional<int64_t> other = map.Add(id)) {
      return FileError(path, lines.number(),
                       absl::StrCat("the id ", Shown(id), " is already on line ", first_line + *other));
    }
  }
  if (map.size() == 0) return FileError(path, 0, "contains no ids");
  return map;
}

absl::Status IdMap::Save(const std::string& path, std::string_view header) const {
  std::string text(kIdMapHeader);
  text.append(header).push_back('\n');
  for (const std::string& id : ids_) text.append(QuoteField(id)).push_back('\n');
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

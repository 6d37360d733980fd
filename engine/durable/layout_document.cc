// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/layout_document.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/state/file_error.h"
#include "engine/state/sealed_json.h"
#include "engine/tune/record_json.h"

namespace vicinal::durable {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr size_t kMaxLayoutNumbers = 64;
constexpr int64_t kMostMemory = int64_t{1} << 50;  // so that sums do not overflow

// For people only: what is missing or no number counts as 0.
double SecondsOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  const double seconds = found != json.end() && found->is_number() ? found->get<double>() : 0.0;
  return std::isfinite(seconds) && seconds >= 0.0 ? seconds : 0.0;
}

StatusOr<StoredLayout> ParseLayout(const std::string& path, const Json& json, const std::string& where) {
  StoredLayout layout;
  VICINAL_ASSIGN_OR_RETURN(const std::string operation, state::internal::StringMember(path, json, "operation"));
  if (operation != kOperationName<AggregateProblem>) return state::Damaged(path, where + " is of another operation");
  VICINAL_ASSIGN_OR_RETURN(layout.key.kernel, state::internal::StringMember(path, json, "kernel"));
  VICINAL_ASSIGN_OR_RETURN(layout.key.name, state::internal::StringMember(path, json, "layout"));
  const auto adjacency = json.find("adjacency");
  if (adjacency == json.end()) return state::Damaged(path, where + " has no adjacency");
  const StatusOr<AdjacencySpec> spec = ParseAdjacency(*adjacency, where + ".adjacency");
  if (!spec.ok()) return state::Damaged(path, std::string(spec.status().message()));
  layout.key.spec = *spec;
  VICINAL_ASSIGN_OR_RETURN(layout.layout_version,
                           state::internal::IntegerMember(path, json, "layout_version", 0, kLargest));
  VICINAL_ASSIGN_OR_RETURN(layout.memory_bytes,
                           state::internal::IntegerMember(path, json, "memory_bytes", 0, kMostMemory));
  const auto numbers = json.find("numbers");
  if (numbers == json.end() || !numbers->is_object() || numbers->size() > kMaxLayoutNumbers) {
    return state::Damaged(path, where + ".numbers is not an object of at most 64 numbers");
  }
  for (const auto& [name, value] : numbers->items()) {
    VICINAL_ASSIGN_OR_RETURN(
        layout.numbers[name],
        state::internal::IntegerMember(path, *numbers, name.c_str(), std::numeric_limits<int64_t>::min(), kLargest));
  }
  layout.make_seconds = SecondsOf(json, "make_seconds");
  layout.read_seconds = SecondsOf(json, "read_seconds");
  return layout;
}

}  // namespace

std::string EncodeLayoutDocument(const LayoutDocument& document) {
  Json layouts = Json::array();
  for (const StoredLayout& layout : document.layouts) {
    layouts.push_back({{"operation", std::string(kOperationName<AggregateProblem>)},
                       {"kernel", layout.key.kernel},
                       {"layout", layout.key.name},
                       {"adjacency", ToJson(layout.key.spec)},
                       {"layout_version", layout.layout_version},
                       {"memory_bytes", layout.memory_bytes},
                       {"numbers", Json(layout.numbers)},
                       {"file", layout.file.name},
                       {"bytes", layout.file.summary.bytes},
                       {"checksum", layout.file.summary.checksum},
                       {"make_seconds", layout.make_seconds},
                       {"read_seconds", layout.read_seconds}});
  }
  return state::internal::SealJson({{"major", state::kLayoutsMajor},
                                    {"minor", 0},
                                    {"graph", document.graph},
                                    {"version", document.version},
                                    {"device", document.device},
                                    {"layouts", std::move(layouts)}});
}

StatusOr<LayoutDocument> ParseLayoutDocument(const std::string& path, std::string_view text) {
  VICINAL_ASSIGN_OR_RETURN(std::vector<state::ManifestFile> files, state::LayoutFilesIn(path, text));
  VICINAL_ASSIGN_OR_RETURN(const Json json, state::internal::UnsealJson(path, text));
  LayoutDocument document;
  VICINAL_ASSIGN_OR_RETURN(document.graph, state::internal::StringMember(path, json, "graph"));
  VICINAL_ASSIGN_OR_RETURN(document.version, state::internal::IntegerMember(path, json, "version", 1, kLargest));
  VICINAL_ASSIGN_OR_RETURN(document.device, state::internal::StringMember(path, json, "device"));
  const Json& layouts = json["layouts"];
  for (size_t i = 0; i < files.size(); ++i) {
    VICINAL_ASSIGN_OR_RETURN(StoredLayout layout, ParseLayout(path, layouts[i], absl::StrCat("layouts[", i, "]")));
    layout.file = std::move(files[i]);
    for (const StoredLayout& other : document.layouts) {
      if (other.key == layout.key) return state::Damaged(path, absl::StrCat("layouts[", i, "] is there twice"));
    }
    document.layouts.push_back(std::move(layout));
  }
  return document;
}

}  // namespace vicinal::durable

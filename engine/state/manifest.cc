// SPDX-License-Identifier: Apache-2.0
#include "engine/state/manifest.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/strict_json.h"
#include "engine/state/file_error.h"
#include "engine/state/sealed_json.h"

namespace vicinal::state {
namespace {

using Json = nlohmann::json;
constexpr int64_t kMaxInteger = std::numeric_limits<int64_t>::max();
constexpr std::string_view kSuffix = ".vsec";

StatusOr<VersionId> ParseId(const std::string& path, const Json& json) {
  VersionId id;
  VICINAL_ASSIGN_OR_RETURN(const std::string store, internal::StringMember(path, json, "store"));
  const auto known = StoreOf(store);
  if (!known) return Damaged(path, "store is none of graphs, features, models, edge_features");
  id.store = *known;
  VICINAL_ASSIGN_OR_RETURN(id.name, internal::StringMember(path, json, "name"));
  VICINAL_ASSIGN_OR_RETURN(id.version, internal::IntegerMember(path, json, "version", 1, kMaxInteger));
  if (BelongsToGraph(id.store)) {
    VICINAL_ASSIGN_OR_RETURN(id.graph, internal::StringMember(path, json, "graph"));
    VICINAL_ASSIGN_OR_RETURN(id.graph_version, internal::IntegerMember(path, json, "graph_version", 1, kMaxInteger));
  }
  return id;
}

StatusOr<ManifestFile> ParseFile(const std::string& path, const Json& json) {
  if (!json.is_object()) return Damaged(path, "an entry of files is not an object");
  ManifestFile file;
  VICINAL_ASSIGN_OR_RETURN(file.name, internal::StringMember(path, json, "name"));
  if (!IsDataFileName(file.name)) return Damaged(path, "a file has a name that is not valid");
  VICINAL_ASSIGN_OR_RETURN(file.summary.bytes, internal::IntegerMember(path, json, "bytes", 0, kMaxInteger));
  VICINAL_ASSIGN_OR_RETURN(const int64_t checksum,
                           internal::IntegerMember(path, json, "checksum", 0, std::numeric_limits<uint32_t>::max()));
  file.summary.checksum = static_cast<uint32_t>(checksum);
  if (!json.contains("identity")) return file;  // the first builds wrote none
  VICINAL_ASSIGN_OR_RETURN(const int64_t identity,
                           internal::IntegerMember(path, json, "identity", 0, std::numeric_limits<uint32_t>::max()));
  file.summary.checksum = static_cast<uint32_t>(identity);
  return file;
}

}  // namespace

bool IsDataFileName(std::string_view name) {
  if (name.size() <= kSuffix.size() || name.size() > 60 + kSuffix.size()) return false;
  const std::string_view stem = name.substr(0, name.size() - kSuffix.size());
  if (name.substr(stem.size()) != kSuffix) return false;
  return std::all_of(stem.begin(), stem.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

StatusOr<std::string> EncodeManifest(const Manifest& manifest) {
  VICINAL_ASSIGN_OR_RETURN(Json metadata, ::vicinal::internal::ParseStrictJson(manifest.metadata, "BAD_METADATA",
                                                                               "the metadata of a manifest"));
  if (!metadata.is_object()) return InvalidArgument("BAD_METADATA", "", "the metadata of a manifest is not an object");
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files) {
    // The first builds compare `checksum` with what they compute of every file.
    files.push_back({{"name", file.name},
                     {"bytes", file.summary.bytes},
                     {"checksum", kChecksumOfAll},
                     {"identity", file.summary.checksum}});
  }
  Json json = {{"major", kFormatMajor},
               {"minor", kFormatMinor},
               {"store", std::string(ToString(manifest.id.store))},
               {"name", manifest.id.name},
               {"version", manifest.id.version},
               {"files", std::move(files)},
               {"metadata", std::move(metadata)}};
  if (BelongsToGraph(manifest.id.store)) {
    json["graph"] = manifest.id.graph;
    json["graph_version"] = manifest.id.graph_version;
  }
  return internal::SealJson(json);
}

StatusOr<Manifest> ParseManifest(const std::string& path, std::string_view text) {
  VICINAL_ASSIGN_OR_RETURN(const Json json, internal::UnsealJson(path, text));
  VICINAL_RETURN_IF_ERROR(internal::CheckMajor(path, json, kFormatMajor));
  Manifest manifest;
  VICINAL_ASSIGN_OR_RETURN(manifest.id, ParseId(path, json));
  const auto files = json.find("files"), metadata = json.find("metadata");
  if (files == json.end() || !files->is_array()) return Damaged(path, "files is not an array");
  if (metadata == json.end() || !metadata->is_object()) return Damaged(path, "metadata is not an object");
  std::set<std::string> names;
  for (const Json& entry : *files) {
    VICINAL_ASSIGN_OR_RETURN(ManifestFile file, ParseFile(path, entry));
    if (!names.insert(file.name).second) return Damaged(path, "a file stands twice");
    manifest.files.push_back(std::move(file));
  }
  manifest.metadata = metadata->dump();
  return manifest;
}

}  // namespace vicinal::state

// SPDX-License-Identifier: Apache-2.0
#include "engine/state/names.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"

namespace vicinal::state {
namespace {

constexpr size_t kComponentBytes = 200;

bool IsPlain(char c, bool first) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || (c == '.' && !first);
}

bool IsUtf8(std::string_view text) {
  const std::string json = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(json).get<std::string>() == text;
}

int HexValue(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

}  // namespace

std::string_view ToString(Store store) {
  switch (store) {
    case Store::kGraphs:
      return "graphs";
    case Store::kFeatures:
      return "features";
    case Store::kModels:
      return "models";
    case Store::kEdgeFeatures:
      return "edge_features";
  }
  return "";
}

std::optional<Store> StoreOf(std::string_view name) {
  for (const Store store : kAllStores) {
    if (ToString(store) == name) return store;
  }
  return std::nullopt;
}

StatusOr<std::string> EncodeName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes || !IsUtf8(name)) {
    return InvalidArgument("BAD_NAME", "", "names have 1 to " + std::to_string(kMaxNameBytes) + " bytes of UTF-8");
  }
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string path;
  size_t begin = 0;  // of the component
  for (const char c : name) {
    if (path.size() - begin >= kComponentBytes) {
      path += "+/";
      begin = path.size();
    }
    if (IsPlain(c, path.size() == begin)) {
      path += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      path += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return path;
}

std::optional<std::string> DecodeComponent(std::string_view component) {
  std::string name;
  for (size_t i = 0; i < component.size(); ++i) {
    if (component[i] != '%') {
      if (!IsPlain(component[i], i == 0)) return std::nullopt;
      name += component[i];
      continue;
    }
    const int high = i + 2 < component.size() ? HexValue(component[i + 1]) : -1;
    const int low = i + 2 < component.size() ? HexValue(component[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    const char c = static_cast<char>(high * 16 + low);
    if (IsPlain(c, i == 0)) return std::nullopt;  // would have stood for itself
    name += c;
    i += 2;
  }
  return name.empty() ? std::nullopt : std::optional(name);
}

std::optional<int64_t> ParseVersion(std::string_view text) {
  int64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size() || version <= 0) return std::nullopt;
  return std::to_string(version) == text ? std::optional(version) : std::nullopt;
}

StatusOr<std::string> PathOf(const VersionId& id) {
  if (id.version <= 0) return InvalidArgument("BAD_VERSION", "", "versions are positive");
  VICINAL_ASSIGN_OR_RETURN(const std::string name, EncodeName(id.name));
  std::string path;
  if (BelongsToGraph(id.store)) {
    VICINAL_ASSIGN_OR_RETURN(path, PathOf(GraphOf(id)));
    path += '/';
  }
  return path + std::string(ToString(id.store)) + "/" + name + "/" + std::to_string(id.version);
}

VersionId GraphOf(const VersionId& id) { return {Store::kGraphs, id.graph, id.graph_version, "", 0}; }

std::string Describe(const VersionId& id) {
  const std::string text = "'" + id.name + "' version " + std::to_string(id.version);
  if (id.store == Store::kGraphs) return "graph " + text;
  if (id.store == Store::kModels) return "model " + text;
  return (id.store == Store::kEdgeFeatures ? "edge feature set " : "feature set ") + text + " of " +
         Describe(GraphOf(id));
}

}  // namespace vicinal::state

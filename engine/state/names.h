// SPDX-License-Identifier: Apache-2.0
// Where versions lie in the state directory. Names from clients become paths by an injective encoding that is safe on
// every file system: [a-z0-9_-] and '.' (not first) stand for themselves, every other byte is %XX; after 200 characters
// a component ends in '+' and the name goes on below it. docs/state.md has examples.
#ifndef VICINAL_ENGINE_STATE_NAMES_H_
#define VICINAL_ENGINE_STATE_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace vicinal::state {

enum class Store { kGraphs, kFeatures, kModels, kEdgeFeatures };
inline constexpr Store kAllStores[] = {Store::kGraphs, Store::kFeatures, Store::kModels, Store::kEdgeFeatures};
std::string_view ToString(Store store);  // "graphs", "features", "models", "edge_features": the directories' names too
std::optional<Store> StoreOf(std::string_view name);

// Feature sets, of nodes and of edges: their versions belong to one version of a graph.
inline constexpr Store kStoresOfGraphs[] = {Store::kFeatures, Store::kEdgeFeatures};
constexpr bool BelongsToGraph(Store store) { return store == Store::kFeatures || store == Store::kEdgeFeatures; }

// Stores that number their versions by themselves. Feature sets of edges take the numbers of those of nodes.
inline constexpr Store kNumberedStores[] = {Store::kGraphs, Store::kFeatures, Store::kModels};
constexpr Store NumberedAs(Store store) { return store == Store::kEdgeFeatures ? Store::kFeatures : store; }

// A version of a graph, of a model, or of a feature set, which belongs to one version of a graph.
struct VersionId {
  Store store = Store::kGraphs;
  std::string name;     // UTF-8, 1 to kMaxNameBytes bytes
  int64_t version = 0;  // > 0
  std::string graph;    // of a feature set; else empty
  int64_t graph_version = 0;

  friend auto operator<=>(const VersionId&, const VersionId&) = default;
};

inline constexpr size_t kMaxNameBytes = 4096;
inline constexpr int64_t kMaxVersion = int64_t{1} << 53;  // exact in every JSON reader

// INVALID_ARGUMENT (BAD_NAME): empty, too long or not UTF-8.
StatusOr<std::string> EncodeName(std::string_view name);
// One component, without its '+'. Nothing unless EncodeName could have made it.
std::optional<std::string> DecodeComponent(std::string_view component);
// "17" -> 17. Nothing unless it is a positive number as this folder writes it.
std::optional<int64_t> ParseVersion(std::string_view text);
// "graphs/cora/3", "graphs/cora/3/features/default/5". INVALID_ARGUMENT (BAD_NAME, BAD_VERSION).
StatusOr<std::string> PathOf(const VersionId& id);
// The version of a graph that a feature set belongs to. REQUIRES: BelongsToGraph(id.store).
VersionId GraphOf(const VersionId& id);
// For people: "graph 'cora' version 3".
std::string Describe(const VersionId& id);

}  // namespace vicinal::state

#endif  // VICINAL_ENGINE_STATE_NAMES_H_

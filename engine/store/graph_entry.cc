// SPDX-License-Identifier: Apache-2.0
#include "engine/store/graph_entry.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/store/version_errors.h"

namespace vicinal::internal {
namespace {

// Most graphs are loaded within this time. Only who does not wait for the load sees the error.
constexpr std::chrono::milliseconds kLoadingRetry{500};

// What to do about a set of that kind which is not there.
std::string Instead(FeatureKind kind, const std::string& graph) {
  return absl::StrCat("upload it to ", Quoted("graph", graph),
                      kind == FeatureKind::kNodes ? ", or send features with the request"
                                                  : ", or name none: then the graph's own edge_attr is read");
}

// A set of the entry of `graph`; version 0: the latest.
StatusOr<FeatureSetHandle> SetIn(const GraphEntry& entry, const std::string& graph, const FeatureSetKey& key,
                                 int64_t version) {
  const char* const type = TypeName(key.first);
  const auto set = entry.features.find(key);
  if (set == entry.features.end()) {
    if (const auto lost = entry.lost_features.find(key); lost != entry.lost_features.end()) {
      return Annotate(lost->second, absl::StrCat(Quoted(type, key.second), " of ", Quoted("graph", graph),
                                                 " could not be loaded from disk"));
    }
    return NotFound(type, key.second, Instead(key.first, graph));
  }
  if (version != 0 && version != set->second->version)
    return VersionNotFound(type, key.second, set->second->version, version);
  return set->second;
}

StatusOr<FeatureSetHandle> EdgesIn(const GraphEntry& entry, const std::string& graph, const WantedEdges& wanted) {
  const bool named = !wanted.name.empty() || wanted.version != 0;
  const FeatureSetKey key = {FeatureKind::kEdges,
                             wanted.name.empty() ? std::string(kDefaultFeatureSet) : std::string(wanted.name)};
  if (!named && !entry.features.contains(key) && !entry.lost_features.contains(key)) return FeatureSetHandle();
  return SetIn(entry, graph, key, wanted.version);
}

}  // namespace

void Retire(const FeatureSetHandle& set) {
  if (set != nullptr && set->memory != nullptr) set->memory->TransferTo(Account::kRequests);
}

void Retire(const GraphEntry& entry) {
  if (entry.graph) entry.graph->TransferReservation(Account::kRequests);
  for (const auto& [key, set] : entry.features) Retire(set);
}

FeatureSetHandle HandleOf(FeatureSet set) {
  if (set.memory != nullptr) {
    set.memory->TransferTo(Account::kFeatures);
    if (set.matrix != nullptr) set.matrix = WithReservation<const FeatureMatrix>(std::move(set.matrix), set.memory);
    if (set.edges != nullptr) set.edges = WithReservation<const EdgeMatrix>(std::move(set.edges), set.memory);
  }
  return std::make_shared<const FeatureSet>(std::move(set));
}

bool HasAllSets(const StoredGraph& stored, const std::vector<FeatureSet>& sets,
                const std::map<FeatureSetKey, Status>& lost) {
  return std::all_of(stored.feature_sets.begin(), stored.feature_sets.end(), [&](const FeatureSetResource& listed) {
    return lost.contains(KeyOf(listed)) || std::any_of(sets.begin(), sets.end(), [&](const FeatureSet& set) {
             return KeyOf(set) == KeyOf(listed) && set.version >= listed.version;
           });
  });
}

bool IsOnlyIn(const GraphEntry& entry, const StoredGraph& stored) {
  if (!entry.graph || entry.version() != stored.serving.version || entry.graph.use_count() > 1) return false;
  if (entry.features.size() != stored.feature_sets.size()) return false;
  size_t next = 0;
  return std::all_of(entry.features.begin(), entry.features.end(), [&](const auto& set) {
    const FeatureSet& kept = *set.second;
    return kept.version == stored.feature_sets[next++].version && set.second.use_count() == 1 &&
           kept.matrix.use_count() <= 1 && kept.edges.use_count() <= 1;
  });
}

StatusOr<GraphHandle> HandleIn(const GraphEntry& entry, const std::string& graph, int64_t graph_version,
                               const std::string& feature_set, int64_t feature_set_version, const WantedEdges& edges) {
  if (!entry.graph) {
    if (entry.stored) {
      const char* const from = entry.host != nullptr ? " is being copied to the device" : " is being loaded from disk";
      return Unavailable("GRAPH_LOADING", absl::StrCat(Quoted("graph", graph), from, "; try again"), kLoadingRetry);
    }
    if (!entry.load_error.ok() && entry.preparing_version == 0) {
      return Annotate(entry.load_error, absl::StrCat(Quoted("graph", graph), " could not be loaded from disk"));
    }
    const bool failed = entry.state() == GraphState::kFailed;
    return FailedPrecondition(
        "GRAPH_NOT_READY",
        failed ? absl::StrCat(Quoted("graph", graph), " could not be prepared: ", entry.error.message(),
                              "; upload it again")
               : absl::StrCat(Quoted("graph", graph), " is being prepared; wait until it is READY (WatchGraph)"));
  }
  if (graph_version != 0 && graph_version != entry.version())
    return VersionNotFound("graph", graph, entry.version(), graph_version);
  GraphHandle handle;
  handle.graph = entry.graph;
  handle.edges = EdgesIn(entry, graph, edges);
  if (feature_set.empty()) return handle;
  VICINAL_ASSIGN_OR_RETURN(handle.features,
                           SetIn(entry, graph, {FeatureKind::kNodes, feature_set}, feature_set_version));
  return handle;
}

GraphStatus StatusOf(const std::string& name, const GraphEntry& entry) {
  GraphStatus status;
  status.name = name;
  status.state = entry.state();
  status.progress = status.state == GraphState::kReady ? 1.0 : entry.progress;
  status.stage = status.state == GraphState::kPreparing ? entry.stage : "";
  status.error = entry.error;
  status.preparing_version = entry.preparing_version;
  status.failed_version = entry.failed_version;
  if (status.state == GraphState::kFailed) status.unloaded_version = entry.published_version();
  const bool prepared = status.state == GraphState::kReady && entry.graph != nullptr;
  status.node_count = prepared ? entry.graph->num_nodes() : entry.declared_nodes;
  status.edge_count = prepared ? entry.graph->num_edges() : entry.declared_edges;
  if (status.state != GraphState::kPreparing && entry.stored) {
    status.node_count = entry.stored->node_count;
    status.edge_count = entry.stored->edge_count;
  }
  status.graph = entry.graph;
  status.stored = entry.stored;
  status.host = entry.host;
  for (const auto& [key, set] : entry.features) status.feature_sets.push_back(set);
  return status;
}

}  // namespace vicinal::internal

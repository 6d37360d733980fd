// SPDX-License-Identifier: Apache-2.0
// What a GraphStore keeps of one name, and what can be told from that alone. No locks: the store holds its own.
#ifndef VICINAL_ENGINE_STORE_GRAPH_ENTRY_H_
#define VICINAL_ENGINE_STORE_GRAPH_ENTRY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/api/resources.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/store/feature_set.h"
#include "engine/store/graph_store.h"
#include "engine/store/host_copy.h"
#include "engine/store/version_source.h"

namespace vicinal::internal {

struct GraphEntry {
  std::shared_ptr<const PreparedGraph> graph;  // the version that serves
  std::map<FeatureSetKey, FeatureSetHandle> features;
  std::map<FeatureSetKey, Status> lost_features;  // why they could not be loaded; those in `features` count
  int64_t preparing_version = 0;                  // 0: no preparation is under way
  VersionClaim features_version;                  // while preparing: for the features that come with the graph
  double progress = 0.0;
  std::string stage;
  std::shared_ptr<const StoredGraph> stored;  // the version that has to be loaded
  std::shared_ptr<HostCopy> host;             // of `stored`; null: it is on disk only
  bool loading = false;                       // `stored` has not been in memory yet
  std::set<FeatureSetKey> deleted_sets;       // of `stored`: a load that began before may still bring them
  MonotonicTime last_use{};
  int64_t declared_nodes = 0, declared_edges = 0;
  Status error;                  // of the last preparation or load
  int64_t failed_version = 0;    // whose error that is
  Status load_error;             // why the version on disk cannot be loaded; OK: it can, or there is none
  int64_t unloaded_version = 0;  // that version

  GraphState state() const {
    if (preparing_version != 0) return GraphState::kPreparing;
    if (graph) return GraphState::kReady;
    if (!stored) return GraphState::kFailed;
    return loading ? GraphState::kLoading : GraphState::kReady;
  }
  int64_t version() const {
    if (graph) return graph->parts().version;
    return stored ? stored->serving.version : 0;
  }
  // Also if it cannot be loaded. What clients see, and name in `if_version`.
  int64_t published_version() const { return version() != 0 || load_error.ok() ? version() : unloaded_version; }
};

// Accounts for a version that no longer serves: only requests still use its memory.
void Retire(const FeatureSetHandle& set);
void Retire(const GraphEntry& entry);

// The set as it is kept: each copy of its features keeps its reservation alive.
FeatureSetHandle HandleOf(FeatureSet set);

// Whether each set that `stored` describes is in one of the two: there in that version or a later one.
bool HasAllSets(const StoredGraph& stored, const std::vector<FeatureSet>& sets,
                const std::map<FeatureSetKey, Status>& lost);

// Whether the entry alone holds what `stored` describes, which is then all it has in memory.
bool IsOnlyIn(const GraphEntry& entry, const StoredGraph& stored);

// GraphStore::Find in the entry of `graph`.
StatusOr<GraphHandle> HandleIn(const GraphEntry& entry, const std::string& graph, int64_t graph_version,
                               const std::string& feature_set, int64_t feature_set_version, const WantedEdges& edges);

// GraphStore::Get of the entry of `name`.
GraphStatus StatusOf(const std::string& name, const GraphEntry& entry);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_STORE_GRAPH_ENTRY_H_

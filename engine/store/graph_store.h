// SPDX-License-Identifier: Apache-2.0
// Graphs and feature sets by name, with versions, states and atomic replacement. In memory (engine/durable keeps them).
// Handles are shared_ptr: replaced or deleted objects live until their last user releases them. The store checks no
// memory: its callers reserve it, and the stored objects own the reservations.
#ifndef VICINAL_ENGINE_STORE_GRAPH_STORE_H_
#define VICINAL_ENGINE_STORE_GRAPH_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api/resources.h"
#include "engine/api/subscription.h"
#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/store/feature_set.h"
#include "engine/store/host_copy.h"
#include "engine/store/version_source.h"

namespace vicinal {

// What is known of a version that no request can use now: it is on disk only, or on the host and not on the device.
struct StoredGraph {
  ServingGraph serving;  // size_bytes: when it was in memory last, 0 if it never was
  int64_t node_count = 0;
  int64_t edge_count = 0;
  std::vector<FeatureSetResource> feature_sets;  // by kind, then name
};

// The state of a name at one moment.
struct GraphStatus {
  std::string name;
  GraphState state = GraphState::kPreparing;
  double progress = 0.0;  // while preparing
  std::string stage;      // the current stage, while preparing
  Status error;           // of the last preparation, if it failed
  int64_t preparing_version = 0;
  int64_t failed_version = 0;    // whose preparation or load ended with `error`
  int64_t unloaded_version = 0;  // as in GraphResource
  int64_t node_count = 0;        // as declared by the upload while preparing; afterwards of the prepared graph
  int64_t edge_count = 0;
  std::shared_ptr<const PreparedGraph> graph;  // the serving version; null: none is in memory
  std::vector<FeatureSetHandle> feature_sets;  // by kind, then name, in memory
  std::shared_ptr<const StoredGraph> stored;   // the version that has to be loaded first; null: there is none
  std::shared_ptr<const HostCopy> host;        // of `stored`, if it is on the host; null: it is on disk only
};

// The version that serves, wherever it is; 0: none.
int64_t ServingVersion(const GraphStatus& status);

// An edge feature set that a request names. No name: the set `default`, or the graph's own edge_attr where there is
// none. Version 0: the latest.
struct WantedEdges {
  std::string_view name;
  int64_t version = 0;
};

// The graph and features of a request.
struct GraphHandle {
  std::shared_ptr<const PreparedGraph> graph;
  FeatureSetHandle features;  // null: none was requested
  // Null: the graph's own. An error, as of a feature set: only whoever reads features of edges need know.
  StatusOr<FeatureSetHandle> edges = FeatureSetHandle();
};

// A graph in memory, and when it was last used.
struct GraphUse {
  std::string name;
  int64_t version = 0;
  bool pinned = false;
  bool left_device = false;  // a HostCopy is all there is of it
  int64_t device_bytes = 0;  // with its feature sets
  MonotonicTime last_use{};
};

// Thread-safe. A name goes PREPARING or LOADING -> READY | FAILED. A READY graph may be on disk only, or on the host
// only: see Evict and LeaveDevice. While a READY name is replaced, the old version serves; if the preparation of the
// new one fails, the old one continues to serve (state READY, `error` set). Reservations of versions that were deleted
// or replaced are transferred to Account::kRequests, because only requests still use them.
class GraphStore {
 public:
  struct Options {
    int64_t max_graphs = 1000;
    int64_t max_feature_sets = 100;  // per graph
    const Clock* clock = nullptr;
    // Where versions come from; must outlive the store and its subscriptions. Null: sources of its own, in memory.
    VersionSource* graph_versions = nullptr;
    VersionSource* feature_versions = nullptr;
  };
  explicit GraphStore(Options options);

  // Claims the name for a preparation and returns its future version. ALREADY_EXISTS without replace; ABORTED if
  // if_version differs or another preparation of the name is in progress; RESOURCE_EXHAUSTED if there are too many
  // names; errors of VersionSource.
  StatusOr<int64_t> BeginPrepare(const std::string& name, bool replace, int64_t if_version, int64_t node_count,
                                 int64_t edge_count);
  void SetProgress(const std::string& name, int64_t version, double progress, std::string_view stage);
  // False once the name was deleted or another preparation took its place: the result will be discarded.
  bool IsPreparing(const std::string& name, int64_t version) const;
  // Publishes atomically. The graph holds its own reservation; `features_memory` is that of `default_features`. Both
  // may be null. Does nothing if the name was deleted meanwhile.
  void FinishPrepare(const std::string& name, int64_t version, StatusOr<std::shared_ptr<const PreparedGraph>> graph,
                     std::shared_ptr<const FeatureMatrix> default_features,
                     std::shared_ptr<Reservation> features_memory = nullptr);

  // --- versions that have to be loaded: from disk, or from their HostCopy ---
  // Claims the name for a version on disk, in state LOADING; `last_use` orders those of the start. The name can be
  // replaced or deleted as if the version served already. Does nothing if the name is taken.
  void BeginLoad(const std::string& name, StoredGraph stored, MonotonicTime last_use);
  // Counts as a use of the graph, in memory or on disk.
  void Touch(const std::string& name);
  // The version of `name` that has to be loaded before it can be used; 0: there is none.
  int64_t StoredVersion(const std::string& name) const;
  // Its copy on the host; null: it is on disk only, or StoredVersion is another.
  std::shared_ptr<HostCopy> HostCopyOf(const std::string& name, int64_t version) const;
  // Publishes a loaded graph with its feature sets, which keep the versions and times they had, but for those that were
  // deleted meanwhile. `lost`: sets that could not be loaded; requests for them get these errors until they are
  // uploaded again. False, and no effect: ReplaceStored has told of sets since that are in neither; load them, and call
  // again. True, and no effect, unless `version` of `name` is StoredVersion.
  bool FinishLoad(const std::string& name, int64_t version, const std::shared_ptr<const PreparedGraph>& graph,
                  std::vector<FeatureSet> feature_sets, const std::map<FeatureSetKey, Status>& lost = {});
  // It could not be loaded. If there is no memory for it (RESOURCE_EXHAUSTED) it stays on disk, READY, and may be
  // loaded later; after any other error the name is FAILED, and requests get that error until an upload is prepared, or
  // the name deleted; it takes no place under max_graphs. Does nothing unless `version` of `name` is StoredVersion.
  void FailLoad(const std::string& name, int64_t version, const Status& error);
  // What FinishLoad says of one feature set of a version in memory; OK: it is not lost any more.
  void SetLostFeatures(const std::string& graph, int64_t graph_version, const std::string& feature_set,
                       const Status& error, FeatureKind kind = FeatureKind::kNodes);
  // It cannot be read now: it stays on disk, READY, and may be loaded later.
  void PostponeLoad(const std::string& name, int64_t version);
  // `other` takes the place of `version`, which is on disk only: it cannot be loaded, was replaced there, or has other
  // feature sets there.
  void ReplaceStored(const std::string& name, int64_t version, StoredGraph other);
  // What another server has published, in place of earlier versions; nothing if the store has later ones. The sets keep
  // the versions and times they had; `lost` as in FinishLoad.
  void Adopt(std::shared_ptr<const PreparedGraph> graph, std::vector<FeatureSet> feature_sets,
             std::map<FeatureSetKey, Status> lost = {});
  void AdoptFeatures(int64_t graph_version, FeatureSet set);
  // Frees a version in memory, which then is on disk only. False, and no effect: it does not serve any more, or
  // somebody else still uses it or one of its feature sets. `stored` describes what is on disk: all its feature sets.
  bool Evict(const std::string& name, StoredGraph stored);
  // The same, but the version stays on the host, and nothing of it needs to be on disk. Null where Evict returns false;
  // else the copy, which the caller makes leave the device; requests wait for it to come back from now on.
  std::shared_ptr<HostCopy> LeaveDevice(const std::string& name, StoredGraph stored);
  // Frees the HostCopy of a version, which then is on disk only. Returns its bytes; 0: there is none.
  int64_t DropHostCopy(const std::string& name, int64_t version);
  // The graphs in memory, the least recently used first.
  std::vector<GraphUse> ByLastUse() const;
  // The names of all graphs that serve, in memory or on disk, the most recently used first.
  std::vector<std::string> ByUse() const;
  // Tells the watchers of `name` that something about it changed which is not kept here.
  void NotifyWatchers(const std::string& name) const;

  StatusOr<GraphStatus> Get(const std::string& name) const;
  // Calls `see` for every graph, by name, without a lock. Holds one graph at a time: a graph that is held cannot leave
  // memory, so a list of all would leave nothing to evict. Not one moment's picture.
  void ForEach(const std::function<void(const GraphStatus& graph)>& see) const;
  // ABORTED if if_version != 0 and differs.
  Status Delete(const std::string& name, int64_t if_version);

  // The returned version rises with each replacement. `memory` is the reservation of `matrix`; null: not counted.
  // ABORTED if `graph_version` no longer serves; errors of VersionSource.
  StatusOr<FeatureSetHandle> PutFeatures(const std::string& graph, const std::string& name, int64_t graph_version,
                                         std::shared_ptr<const FeatureMatrix> matrix, bool replace, int64_t if_version,
                                         std::shared_ptr<Reservation> memory = nullptr, std::string source_digest = {});
  // The same for features of edges. REQUIRES: they are in the order of that version's CSR.
  StatusOr<FeatureSetHandle> PutEdgeFeatures(const std::string& graph, const std::string& name, int64_t graph_version,
                                             std::shared_ptr<const EdgeMatrix> edges, bool replace, int64_t if_version,
                                             std::shared_ptr<Reservation> memory = nullptr,
                                             std::string source_digest = {});
  // ABORTED if if_version != 0 and differs. NOT_FOUND says so if the other kind has a set of that name.
  Status DeleteFeatures(const std::string& graph, const std::string& name, FeatureKind kind = FeatureKind::kNodes,
                        int64_t if_version = 0);

  // A READY graph, and the feature set of that name unless `feature_set` is empty. Version 0: the latest.
  // NOT_FOUND: graph, version, feature set. FAILED_PRECONDITION (GRAPH_NOT_READY): it is still being prepared, or
  // preparation failed. UNAVAILABLE (GRAPH_LOADING): it is on disk only; the errors of FailLoad where that failed.
  // Counts as a use of the graph.
  StatusOr<GraphHandle> Find(const std::string& graph, int64_t graph_version, const std::string& feature_set,
                             int64_t feature_set_version, const WantedEdges& edges = {}) const;
  // The same, but no use of the graph.
  StatusOr<GraphHandle> Peek(const std::string& graph, int64_t graph_version, const std::string& feature_set,
                             int64_t feature_set_version, const WantedEdges& edges = {}) const;
  // Whether the version is there, in memory or on disk only.
  bool Has(const std::string& graph, int64_t graph_version) const;
  bool Has(const std::string& graph, int64_t graph_version, const std::string& feature_set, int64_t feature_set_version,
           FeatureKind kind = FeatureKind::kNodes) const;

  // Calls `callback` after each change of `name` (state, progress, deletion), until the returned subscription is
  // dropped. Callbacks run one at a time (changes during a callback cause one more call), without locks held, on the
  // thread that made a change, and must be quick. Dropping the subscription waits for a running callback (do not drop
  // it inside its own callback).
  std::unique_ptr<Subscription> Watch(const std::string& name, std::function<void()> callback);

  // Whether `graph` is the version that serves under its name.
  bool IsServing(const PreparedGraph& graph) const;
  // Nodes of the largest serving graph; 0: none.
  int64_t largest_graph() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_STORE_GRAPH_STORE_H_

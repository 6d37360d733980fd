// SPDX-License-Identifier: Apache-2.0
// Takes uploaded graphs and feature sets: reserves memory for them, prepares them and publishes them in the store.
// Graphs are prepared on a thread of their own, feature sets on the caller's.
#ifndef VICINAL_ENGINE_PREPARE_GRAPH_UPLOADS_H_
#define VICINAL_ENGINE_PREPARE_GRAPH_UPLOADS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/api/given_tensors.h"
#include "engine/api/requests.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/base/work_limits.h"
#include "engine/device/device.h"
#include "engine/device/host_threads.h"
#include "engine/kernels/registry.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepare/choose_order.h"
#include "engine/prepare/preparation_queue.h"
#include "engine/store/graph_store.h"
#include "engine/tune/first_runs.h"

namespace vicinal {

// Thread-safe.
class GraphUploads {
 public:
  // All must outlive the object, whose destructor waits for the preparation that runs.
  struct Parts {
    Device* device = nullptr;
    const KernelRegistry* registry = nullptr;  // to measure orders with
    FirstRuns* first_runs = nullptr;           // hears of these measurements; may be null
    MemoryBudget* budget = nullptr;
    GraphStore* graphs = nullptr;
    const Clock* clock = nullptr;
    StatsSink* stats = nullptr;
    Logger* logger = nullptr;
    // The graph is ready, with these features ("default") or (null) without, and they serve nobody yet. A new feature
    // set of a graph that serves is announced likewise. `stop`: publication need not wait for more; may be empty.
    std::function<void(const std::shared_ptr<const PreparedGraph>& graph, const std::string& feature_set,
                       const std::shared_ptr<const FeatureMatrix>& features, const StopCheck& stop)>
        before_publish;
    // The same of a new edge feature set of a graph that serves.
    std::function<void(const std::shared_ptr<const PreparedGraph>& graph, const std::string& feature_set,
                       const std::shared_ptr<const EdgeMatrix>& edges, const StopCheck& stop)>
        before_edges;
    std::function<void(const std::string& graph)> on_publish;  // was published, perhaps in place of another
    int64_t max_waiting = 0;                                   // graphs that may wait for preparation
  };
  explicit GraphUploads(Parts parts);

  // As those of Engine.
  Status CheckGraphFits(const GraphSizes& sizes, bool replace) const;
  Status CheckFeaturesFit(const FeatureSizes& sizes, bool replace) const;
  Status CheckEdgeFeaturesFit(const EdgeFeatureSizes& sizes, bool replace) const;
  // As Engine::PutGraph. `auto` leaves out orders for which the budget has no room.
  StatusOr<GraphStatus> PutGraph(GraphSource source, Reservation memory);
  // Returns once on_publish has been called for all graphs that serve.
  void AwaitPublished() VICINAL_EXCLUDES(publishing_);
  // As Engine::PutFeatures.
  StatusOr<FeatureSetHandle> PutFeatures(const std::string& graph, const std::string& name,
                                         const FeatureTensors& tensors, bool replace, int64_t if_version,
                                         const GivenTensors& given, const WorkLimits& limits);
  // As Engine::PutEdgeFeatures.
  StatusOr<FeatureSetHandle> PutEdgeFeatures(const std::string& graph, const std::string& name,
                                             const EdgeFeatureTensors& tensors, bool replace, int64_t if_version,
                                             int64_t reserved_bytes, const WorkLimits& limits);

 private:
  void Prepare(GraphSource source, AutoOrders among, Reservation memory, int64_t version, bool stopping);

  const Parts parts_;
  const std::unique_ptr<DeviceContext> context_;  // used by the queue's thread only
  const HostThreads threads_;                     // features of edges take turns with that thread
  Mutex publishing_;                              // held until on_publish has been called for what serves
  PreparationQueue queue_;                        // last: its thread uses all of the above
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARE_GRAPH_UPLOADS_H_

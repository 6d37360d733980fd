// SPDX-License-Identifier: Apache-2.0
// Where graphs are: on the device, on the host or on disk. Says which may leave, makes them leave when memory is short,
// and brings back those that a call needs.
//
// With a state directory only what is on disk may leave, even from the device to the host: the writer needs what it
// writes. Without one, graphs leave for the host only, and only where the device has memory of its own.
#ifndef VICINAL_ENGINE_COORDINATION_GRAPH_TIERS_H_
#define VICINAL_ENGINE_COORDINATION_GRAPH_TIERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/base/work_limits.h"
#include "engine/coordination/resource_descriptions.h"
#include "engine/device/device.h"
#include "engine/durable/graph_loader.h"
#include "engine/execute/plan_cache.h"
#include "engine/execute/receptive_field_memory.h"
#include "engine/memory/memory_budget.h"
#include "engine/store/graph_evictor.h"
#include "engine/store/graph_store.h"

namespace vicinal {

// Thread-safe once started.
class GraphTiers {
 public:
  // All must outlive the object.
  struct Parts {
    GraphStore* graphs = nullptr;
    PlanCache* plans = nullptr;
    ReceptiveFieldMemory* receptive_fields = nullptr;
    ReceptiveFieldMemory* side_receptive_fields = nullptr;
    MemoryBudget* budget = nullptr;
    Device* device = nullptr;
    const Clock* clock = nullptr;
    StatsSink* stats = nullptr;
    Logger* logger = nullptr;
    const ResourceDescriptions* descriptions = nullptr;
    bool has_state_directory = false;
  };
  explicit GraphTiers(const Parts& parts);
  // Before the first call about graphs that must be loaded. Null: all graphs stay where they serve. It must outlive the
  // calls.
  void Start(durable::GraphLoader* loader) { loader_ = loader; }

  // --- bringing in ---
  // Whether the graph of that name serves, but has to be loaded first: from disk, or from the host to the device.
  bool MustBeLoaded(const std::string& graph) const {
    return loader_ != nullptr && parts_.graphs->StoredVersion(graph) != 0;
  }
  // As GraphLoader::Load, with errors as of WithRetry. REQUIRES: MustBeLoaded was true.
  Status Load(const std::string& graph, const WorkLimits& limits, durable::GraphLoader::Done done) const;
  // Loads the graph if it must be loaded, and waits. Errors as of WithRetry.
  Status BringIn(const std::string& graph, const WorkLimits& limits) const;

  // --- leaving ---
  // An evictor of MemoryBudget: GraphEvictor::Evict.
  bool Evict(int64_t bytes) { return evictor_.Evict(bytes); }
  // An evictor of the device's memory. Frees what costs least to have again first, as where the budget is short.
  // Nothing goes if all of it would not suffice. Returns whether it freed anything.
  bool EvictFromDevice(int64_t bytes);

  // `status` of an upload or a load. A full budget is no reason to give up while graphs in memory can leave, once they
  // are on disk and nobody uses them: such an error then says when to try again.
  Status WithRetry(const Status& status) const;
  // OK if waiting may help: where WithRetry says when to try again. Otherwise `status`.
  Status UnlessForGood(const Status& status) const;

 private:
  // How the version in memory is described once it has left; nothing unless it may.
  std::optional<StoredGraph> MayLeave(const std::string& name) const;
  // Whether the version in memory is being written, or waits for that, and nothing of it has failed.
  bool WillBeOnDisk(const std::string& name) const;

  const Parts parts_;
  GraphEvictor evictor_;
  durable::GraphLoader* loader_ = nullptr;
  Mutex leaving_mutex_;  // held while plans and graphs leave the device; acquired before those of the stores
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_COORDINATION_GRAPH_TIERS_H_

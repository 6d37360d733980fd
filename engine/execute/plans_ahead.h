// SPDX-License-Identifier: Apache-2.0
// Makes plans before requests need them. A plan of a large graph takes hundreds of milliseconds (adjacencies, layouts),
// for which its request and all behind it would wait.
//
// - Before a graph, a feature set or a model is published: for the models and graphs that it may be used with, first as
//   they are used now, then as a request without options would use them. At most kMost plans. A plan depends on an edge
//   feature set by its width alone, so those for sets that will follow their graph are made with the graph.
// - Before a graph serves that was read from disk for a request: likewise, for a bounded time (BeforeLoaded).
// - After a start: likewise, for graphs that serve already.
// - After tuning: for each plan that is outdated, which serves until then.
//
// Memory is reserved without evicting anything. A plan that cannot be made is left to its first request, which reports
// the error.
#ifndef VICINAL_ENGINE_EXECUTE_PLANS_AHEAD_H_
#define VICINAL_ENGINE_EXECUTE_PLANS_AHEAD_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/work_limits.h"
#include "engine/execute/plan_cache.h"
#include "engine/execute/plan_runner.h"
#include "engine/store/graph_store.h"
#include "engine/store/model_store.h"

namespace vicinal {

// Thread-safe. Calls build plans on the caller's thread.
class PlansAhead {
 public:
  static constexpr size_t kMost = 8;
  // For a graph from disk that requests wait for, no plan is begun after that long.
  static constexpr std::chrono::milliseconds kWhileWaitedFor{250};

  // All must outlive the object.
  struct Parts {
    PlanRunner* runner = nullptr;
    PlanCache* plans = nullptr;
    const GraphStore* graphs = nullptr;
    const ModelStore* models = nullptr;
    Logger* logger = nullptr;
    const Clock* clock = nullptr;
  };
  explicit PlansAhead(const Parts& parts) : parts_(parts) {}

  // `graph`, or `features` of it, will be published, or serves already; null features: there is nothing to plan for.
  // `coming`: the feature sets that come with a graph which does not serve yet; of edges or others. `stop`, which may
  // be empty: no further plan is begun.
  void BeforeGraph(const std::shared_ptr<const PreparedGraph>& graph,
                   const std::shared_ptr<const FeatureMatrix>& features,
                   const std::vector<FeatureSetHandle>& coming = {}, const StopCheck& stop = {}) const;
  // `edges` will be published as an edge feature set of `graph`.
  void BeforeEdges(const std::shared_ptr<const PreparedGraph>& graph, const EdgeMatrix& edges,
                   const StopCheck& stop = {}) const;
  // `graph` was read from disk for a request, with `sets`, of which `features` (null: none) are planned for, and will
  // serve.
  void BeforeLoaded(const std::shared_ptr<const PreparedGraph>& graph,
                    const std::shared_ptr<const FeatureMatrix>& features,
                    const std::vector<FeatureSetHandle>& sets) const;
  // `model` will be published under `name`.
  void BeforeModel(const std::string& name, const std::shared_ptr<const Model>& model,
                   const StopCheck& stop = {}) const;
  // A graph was tuned: when this returns, no outdated plan serves any more.
  void AfterTuning() const;

 private:
  class Wanted;
  // The widths of edge feature sets that plans of a model are to read; 0: none, or the graph's own.
  using EdgeWidths = std::function<std::vector<int64_t>(const Model& model)>;
  std::vector<PlanCache::Built> WantedFor(const std::shared_ptr<const PreparedGraph>& graph,
                                          const FeatureMatrix& features, const EdgeWidths& widths) const;
  void Make(const std::vector<PlanCache::Built>& wanted, const StopCheck& stop = {}) const;
  void MakeOne(const PlanCache::Built& wanted) const;

  const Parts parts_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_PLANS_AHEAD_H_

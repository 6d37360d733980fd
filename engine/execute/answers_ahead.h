// SPDX-License-Identifier: Apache-2.0
// Computes kept answers before requests need them. When a graph, a feature set or a model is replaced whose answers
// were hit lately, all queries would be computed from the switch on until a pass had been paid for again. Therefore the
// passes are run before the new version is published, and from the first request on its answers are kept ones.
//
// What is replaced serves meanwhile, with its answers. Passes give way to requests for kPatience and then take their
// turn, as those of AnswerKeeper do. Nothing fails because of them: what could not be computed in time, or has no room
// in the memory of kept answers beside those in use, is left to AnswerKeeper.
//
// Feature sets go with their graph, and those that are not published together with its successor come later: what was
// in use of them is remembered for kInUse.
#ifndef VICINAL_ENGINE_EXECUTE_ANSWERS_AHEAD_H_
#define VICINAL_ENGINE_EXECUTE_ANSWERS_AHEAD_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"
#include "engine/base/work_limits.h"
#include "engine/execute/answer_cache.h"
#include "engine/execute/executor.h"
#include "engine/execute/plan_runner.h"
#include "engine/store/graph_store.h"
#include "engine/store/model_store.h"

namespace vicinal {

// Thread-safe. Calls wait for the executor's thread, at most for kLongest and not once `stop`, which may be empty, says
// so.
class AnswersAhead {
 public:
  static constexpr size_t kMost = 8;                   // passes for one publication
  static constexpr size_t kMostRemembered = 64;        // answers of feature sets that are yet to come
  static constexpr std::chrono::minutes kInUse{10};    // since a hit
  static constexpr std::chrono::seconds kPatience{1};  // of a pass, with requests that leave no idle time
  static constexpr std::chrono::seconds kLongest{10};  // that a publication waits for all its passes

  // All must outlive the object, and the object the executor.
  struct Parts {
    AnswerCache* cache = nullptr;
    PlanRunner* runner = nullptr;
    const GraphStore* graphs = nullptr;
    const ModelStore* models = nullptr;
    const Clock* clock = nullptr;
    StatsSink* stats = nullptr;
    Logger* logger = nullptr;
  };
  explicit AnswersAhead(const Parts& parts) : parts_(parts) {}
  // Before the first call.
  void Start(Executor* executor) { executor_ = executor; }

  struct NamedFeatures {
    std::string feature_set;
    std::shared_ptr<const FeatureMatrix> features;
  };
  // `graph` will be published together with `sets` and `edge_sets`; or `sets` will be, of a graph that serves.
  void BeforeGraph(const std::shared_ptr<const PreparedGraph>& graph, const std::vector<NamedFeatures>& sets,
                   const std::vector<FeatureSetHandle>& edge_sets, const StopCheck& stop);
  // The edge feature set `set`, which has no version yet, will be published of `graph`.
  void BeforeEdges(const std::shared_ptr<const PreparedGraph>& graph, const FeatureSetHandle& set,
                   const StopCheck& stop);
  // `model` will be published under `name`.
  void BeforeModel(const std::string& name, const std::shared_ptr<const Model>& model, const StopCheck& stop);

 private:
  struct Outcome;
  struct Pass;

  // What is in use and of which `is_replaced` is true of the key, most recently used first, at most kMost.
  template <class IsReplaced>
  std::vector<AnswerUse> Replaced(const IsReplaced& is_replaced) const;
  // Remembers these answers of feature sets, of nodes or edges, that do not come together with their graph.
  void Remember(const std::vector<AnswerUse>& replaced);
  // What is remembered and of which `is_wanted` is true of the key, which has no version numbers.
  template <class IsWanted>
  std::vector<AnswerUse> Remembered(const IsWanted& is_wanted);
  // Adds to `wanted` what is remembered, while it has fewer than kMost. Returns the answers that must make no room for
  // all of it: `replaced`, unless something was added.
  std::vector<AnswerUse> AddRemembered(std::vector<AnswerUse> remembered, std::vector<AnswerUse> replaced,
                                       std::vector<AnswerUse>* wanted) const;
  // The pass whose answers take the place of those in use; null: they have no successors.
  // `edges`: the edge feature set that it is about to read, if `model` reads any; null: the graph's own features.
  static std::shared_ptr<Pass> PassFor(const AnswerUse& use, std::shared_ptr<const PreparedGraph> graph,
                                       std::shared_ptr<const FeatureMatrix> features,
                                       std::shared_ptr<const Model> model, const FeatureSetHandle& edges);
  // The edge feature set `name` of `graph`, which serves, or will together with `coming`: empty `name` as in a request.
  // Null: the graph's own features; nothing: there is no such set.
  std::optional<FeatureSetHandle> EdgesOf(const std::shared_ptr<const PreparedGraph>& graph, const std::string& name,
                                          const std::vector<FeatureSetHandle>& coming) const;
  // Answers of `spared` make no room for those of the passes.
  void Make(const std::vector<std::shared_ptr<Pass>>& passes, const std::vector<AnswerUse>& spared,
            const StopCheck& stop);
  // Runs the pass and keeps its rows.
  Status Keep(const std::shared_ptr<Pass>& pass, MonotonicTime until, const StopCheck& stop);
  void Submit(std::shared_ptr<Pass> pass);
  void Run(std::shared_ptr<Pass> pass, const Status& admitted, DeviceContext& context, const Lease& lease);
  Status Await(Pass& pass, MonotonicTime until, const StopCheck& stop) const;
  void Report(const Pass& pass, const Status& kept, double seconds) const;

  const Parts parts_;
  Executor* executor_ = nullptr;

  Mutex mutex_;
  std::deque<AnswerUse> remembered_ VICINAL_GUARDED_BY(mutex_);  // without version numbers, the latest first
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_ANSWERS_AHEAD_H_

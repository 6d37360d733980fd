// SPDX-License-Identifier: Apache-2.0
// What goes with a change of the versions that serve. Before a version serves: it gets tuning decisions of similar
// graphs, plans, and answers. Afterwards: what was kept for versions that no longer serve is dropped.
#ifndef VICINAL_ENGINE_COORDINATION_SERVING_CHANGES_H_
#define VICINAL_ENGINE_COORDINATION_SERVING_CHANGES_H_

#include <memory>
#include <string>
#include <vector>

#include "engine/base/log.h"
#include "engine/base/work_limits.h"
#include "engine/execute/answer_cache.h"
#include "engine/execute/answers_ahead.h"
#include "engine/execute/plan_cache.h"
#include "engine/execute/plans_ahead.h"
#include "engine/execute/receptive_field_memory.h"
#include "engine/store/graph_store.h"
#include "engine/tune/seeds.h"

namespace vicinal {

// Thread-safe. Holds no lock and no state.
class ServingChanges {
 public:
  // All must outlive the calls.
  struct Parts {
    const GraphStore* graphs = nullptr;
    const SeedLibrary* seeds = nullptr;  // null: graphs are not tuned
    PlanCache* plans = nullptr;
    AnswerCache* answers = nullptr;
    ReceptiveFieldMemory* receptive_fields = nullptr;
    ReceptiveFieldMemory* side_receptive_fields = nullptr;
    PlansAhead* plans_ahead = nullptr;
    AnswersAhead* answers_ahead = nullptr;
    Logger* logger = nullptr;
  };
  explicit ServingChanges(const Parts& parts) : parts_(parts) {}

  // --- before ---
  // As GraphUploads::Parts::before_publish, its before_edges, and as ModelUploads::Parts::before_publish and
  // DurableStore::Parts::before_following_model.
  void BeforeGraph(const std::shared_ptr<const PreparedGraph>& graph, const std::string& feature_set,
                   const std::shared_ptr<const FeatureMatrix>& features, const StopCheck& stop) const;
  void BeforeEdges(const std::shared_ptr<const PreparedGraph>& graph, const std::string& feature_set,
                   const std::shared_ptr<const EdgeMatrix>& edges, const StopCheck& stop) const;
  void BeforeModel(const std::string& name, const std::shared_ptr<const Model>& model, const StopCheck& stop) const;
  // As DurableStore::Parts::before_serving.
  void BeforeLoaded(const std::shared_ptr<const PreparedGraph>& graph,
                    const std::vector<FeatureSet>& feature_sets) const;
  // As DurableStore::Parts::before_following_graph.
  void BeforeFollowingGraph(const std::shared_ptr<const PreparedGraph>& graph,
                            const std::vector<FeatureSet>& feature_sets, const StopCheck& stop) const;

  // --- after ---
  // As DurableStore::Parts::after_start.
  void AfterStart(const std::string& graph, const StopCheck& stop) const;
  // Graphs were loaded, deleted or replaced.
  void GraphsChanged() const;
  // A feature set was deleted or replaced.
  void FeaturesChanged() const;
  // A model was deleted or replaced, or a version was not published after all: plans and answers may be left of it.
  void DropStale() const;

 private:
  // With the choices of graphs that are like it.
  void Seed(const PreparedGraph& graph) const;

  const Parts parts_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_COORDINATION_SERVING_CHANGES_H_

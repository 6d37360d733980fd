// SPDX-License-Identifier: Apache-2.0
// Resolves a request, once: names become handles on versions, everything that can be checked without a plan is checked,
// and features sent with the request go to the device in execution order. All on the caller's thread.
#ifndef VICINAL_ENGINE_EXECUTE_RESOLVE_H_
#define VICINAL_ENGINE_EXECUTE_RESOLVE_H_

#include <functional>
#include <memory>
#include <string>

#include "engine/api/requests.h"
#include "engine/execute/queued_request.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepare/inline_graph.h"
#include "engine/store/graph_store.h"
#include "engine/store/model_store.h"

namespace vicinal {

// The output of that name; empty means "logits". INVALID_ARGUMENT (OUTPUT_UNKNOWN) lists the model's outputs.
StatusOr<const NamedOutput*> FindOutput(const Model& model, const std::string& name);

// FAILED_PRECONDITION (EDGE_WEIGHT_MISSING) when layers read weights that the graph has not: it would answer, and be
// wrong. `name`: of the model.
Status CheckEdgeWeights(const Model& model, const std::string& name, const PreparedGraph& graph);

// The same, and EDGE_ATTR_MISSING, EDGE_ATTR_WIDTH. `edges`: a set in place of the graph's own features; null: those.
Status CheckEdges(const Model& model, const std::string& name, const PreparedGraph& graph,
                  const FeatureSet* edges = nullptr);

// Thread-safe. What it looks at must outlive it.
class RequestResolver {
 public:
  // `incarnation`: of the engine.
  RequestResolver(const GraphStore* graphs, const ModelStore* models, const InlineGraphMaker* inline_graphs,
                  MemoryBudget* budget, Device* device, std::string_view incarnation)
      : graphs_(*graphs),
        models_(*models),
        inline_graphs_(*inline_graphs),
        budget_(*budget),
        device_(*device),
        incarnation_(incarnation) {}

  // Whether a request may come, asked before the features that it brings are read: its error is Resolve's.
  using MayCome = std::function<Status(const QueuedRequest& request)>;
  // Codes as Engine::Submit. What is returned lacks a callback. `may_come` empty: it may.
  StatusOr<QueuedRequest> Resolve(InferenceRequest request, const MayCome& may_come = {}) const;
  StatusOr<QueuedRequest> ResolveBatch(GraphBatchRequest request) const;

 private:
  // FAILED_PRECONDITION (INCARNATION_MISMATCH) unless `required` is empty or the engine's.
  Status CheckIncarnation(const std::string& required) const;
  // Sets what the request brings: features as sent, the stored ones and the rows that stand for some of them, or
  // (`may_stay_apart` false, or not on a CPU) a copy of the stored ones with these rows. Their bytes count as long as
  // they live.
  Status TakeFeatures(const RequestFeatures& features, bool may_stay_apart, const GraphHandle& handle,
                      const Model& model, QueuedRequest* request) const;

  const GraphStore& graphs_;
  const ModelStore& models_;
  const InlineGraphMaker& inline_graphs_;
  MemoryBudget& budget_;
  Device& device_;
  const std::string_view incarnation_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_RESOLVE_H_

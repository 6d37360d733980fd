// SPDX-License-Identifier: Apache-2.0
// Takes uploaded models: loads them, checks the answers that came along, and publishes them in the store.
#ifndef VICINAL_ENGINE_EXECUTE_MODEL_UPLOADS_H_
#define VICINAL_ENGINE_EXECUTE_MODEL_UPLOADS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "engine/api/requests.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/status.h"
#include "engine/execute/executor.h"
#include "engine/execute/model_reference.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepare/inline_graph.h"
#include "engine/store/graph_store.h"
#include "engine/store/model_store.h"

namespace vicinal {

// Thread-safe.
class ModelUploads {
 public:
  // All must outlive the object.
  struct Parts {
    ModelStore* models = nullptr;
    const GraphStore* graphs = nullptr;               // for references on a stored graph
    const InlineGraphMaker* inline_graphs = nullptr;  // for references with a graph of their own
    MemoryBudget* budget = nullptr;
    Executor* executor = nullptr;  // runs the check
    const Clock* clock = nullptr;
    Logger* logger = nullptr;
    // `model` can be used, and will be published under `name`. `stop`: publication need not wait for more.
    std::function<void(const std::string& name, const std::shared_ptr<const Model>& model, const StopCheck& stop)>
        before_publish;
    // A model was published, perhaps in place of another. `document`: as it was uploaded; null unless keep_documents.
    std::function<void(const ModelHandle& model, std::shared_ptr<const ModelDocument> document)> on_publish;
    bool keep_documents = false;
  };
  explicit ModelUploads(Parts parts) : parts_(std::move(parts)) {}

  // As Engine::PutModel.
  StatusOr<ModelHandle> Put(ModelSource source, const WorkLimits& limits, Reservation memory) const;

 private:
  // The largest relative error of `model` against `reference`.
  StatusOr<double> Check(const std::shared_ptr<const Model>& model, const ModelReference& reference,
                         const std::string& name, const WorkLimits& limits) const;
  struct ReferenceGraph : InlineGraph {
    FeatureSetHandle edges;  // of a stored graph, in place of its own features of edges; null: those
  };
  struct LinkCheck {
    const std::string& model;
    double tolerance = 0.0;
    const WorkLimits* limits = nullptr;
  };
  // The largest relative error of the model's scores of `links`.
  StatusOr<double> CheckLinks(const std::shared_ptr<const Model>& model, const ReferenceLinks& links,
                              const ReferenceGraph& graph, const LinkCheck& how) const;
  // The graph of `reference` and its features, stored or from `file`.
  StatusOr<ReferenceGraph> GraphOf(const ModelReference& reference, const Safetensors& file, const Model& model) const;

  const Parts parts_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_MODEL_UPLOADS_H_

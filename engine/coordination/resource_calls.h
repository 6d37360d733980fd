// SPDX-License-Identifier: Apache-2.0
// Calls that read or change graphs, feature sets and models, where they take more than the store: the graph is brought
// in first, the state directory hears of what is published, and what was kept for former versions goes.
//
// A deletion that is not durable would come back with the next start. It is therefore durable before it is
// acknowledged; a call that failed there can be repeated, when only the disk knows of the resource any more.
#ifndef VICINAL_ENGINE_COORDINATION_RESOURCE_CALLS_H_
#define VICINAL_ENGINE_COORDINATION_RESOURCE_CALLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/api/given_tensors.h"
#include "engine/api/graph_picture.h"
#include "engine/api/requests.h"
#include "engine/api/resources.h"
#include "engine/base/status.h"
#include "engine/base/work_limits.h"
#include "engine/coordination/graph_tiers.h"
#include "engine/coordination/resource_descriptions.h"
#include "engine/coordination/serving_changes.h"
#include "engine/durable/durable_store.h"
#include "engine/execute/model_uploads.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepare/graph_uploads.h"
#include "engine/state/state_directory.h"
#include "engine/store/graph_store.h"
#include "engine/store/model_store.h"
#include "engine/tuning/graph_tuner.h"

namespace vicinal {

// Thread-safe. All methods are those of Engine, unless it says otherwise.
class ResourceCalls {
 public:
  // All must outlive the object.
  struct Parts {
    GraphStore* graphs = nullptr;
    ModelStore* models = nullptr;
    GraphUploads* graph_uploads = nullptr;
    const ModelUploads* model_uploads = nullptr;
    const GraphTuner* tuner = nullptr;
    const GraphTiers* tiers = nullptr;
    const ServingChanges* changes = nullptr;
    const ResourceDescriptions* descriptions = nullptr;
    durable::DurableStore* durable = nullptr;         // null: in memory only
    const state::StateDirectory* followed = nullptr;  // of a read replica; null: the engine may be written to
  };
  explicit ResourceCalls(const Parts& parts) : parts_(parts) {}

  Status CheckWritable() const;

  StatusOr<GraphResource> PutGraph(GraphSource source, Reservation memory) const;
  Status CheckGraphFits(const GraphSizes& sizes, bool replace) const;
  Status CheckFeaturesFit(const FeatureSizes& sizes, bool replace) const;
  Status CheckEdgeFeaturesFit(const EdgeFeatureSizes& sizes, bool replace) const;
  StatusOr<GraphResource> GetGraph(const std::string& name) const;
  std::vector<GraphResource> ListGraphs() const;
  Status DeleteGraph(const std::string& name, int64_t if_version) const;
  StatusOr<GraphPicture> Picture(const std::string& name, int side) const;

  StatusOr<TuningReport> TuneGraph(const TuneGraphRequest& request) const;
  StatusOr<TuningReport> GetTuning(const std::string& graph) const;
  StatusOr<std::string> ExportTuning(const std::string& graph) const;

  StatusOr<FeatureSetResource> PutFeatures(const std::string& graph, const std::string& name,
                                           const FeatureTensors& tensors, bool replace, int64_t if_version,
                                           const GivenTensors& given, const WorkLimits& limits) const;
  StatusOr<FeatureSetResource> PutEdgeFeatures(const std::string& graph, const std::string& name,
                                               const EdgeFeatureTensors& tensors, bool replace, int64_t if_version,
                                               int64_t reserved_bytes, const WorkLimits& limits) const;
  Status DeleteFeatures(const std::string& graph, const std::string& name, FeatureKind kind, int64_t if_version) const;

  StatusOr<ModelResource> PutModel(ModelSource source, const WorkLimits& limits, Reservation memory) const;
  StatusOr<ModelResource> GetModel(const std::string& name) const;
  std::vector<ModelResource> ListModels() const;
  Status DeleteModel(const std::string& name, int64_t if_version) const;

 private:
  // After an attempt to publish a feature set.
  StatusOr<FeatureSetResource> Published(const StatusOr<FeatureSetHandle>& set) const;
  // After the store's deletion, which returned `deleted`: the same on disk. `remove` is called with the store there.
  template <class Remove>
  Status MakeDurable(const Status& deleted, const Remove& remove) const;

  const Parts parts_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_COORDINATION_RESOURCE_CALLS_H_

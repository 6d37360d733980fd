// SPDX-License-Identifier: Apache-2.0
// Turns handles into the plain resources of engine/api, for replies about resources. Pure functions; none of them runs
// for an inference.
#ifndef VICINAL_ENGINE_EXECUTE_DESCRIBE_H_
#define VICINAL_ENGINE_EXECUTE_DESCRIBE_H_

#include <string>
#include <vector>

#include "engine/api/resources.h"
#include "engine/execute/queued_request.h"
#include "engine/kernels/registry.h"
#include "engine/plan/plan.h"
#include "engine/store/graph_store.h"
#include "engine/store/model_store.h"

namespace vicinal {

GraphResource ResourceOf(const GraphStatus& status);
FeatureSetResource ResourceOf(const FeatureSet& set);
ModelResource ResourceOf(const StoredModel& stored);
std::vector<ModelResource> ResourcesOf(const std::vector<ModelHandle>& models);
// Adds a graph, with its feature sets, or a model to what is counted. `device`: where graphs and features are.
void AddTo(ResourceCounts* counts, const GraphStatus& graph, DeviceKind device);
void AddTo(ResourceCounts* counts, const StoredModel& model, DeviceKind device);
// `plan` is the plan of `request`, on `device`.
Explanation ExplanationOf(const QueuedRequest& request, const Plan& plan, const KernelRegistry& registry,
                          const Device& device);
// All kernels of all operations, best first.
std::vector<KernelStatus> KernelsOf(const KernelRegistry& registry);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_DESCRIBE_H_

// SPDX-License-Identifier: Apache-2.0
// Resources as callers of the engine see them: what the stores know, with the incarnation, how durable versions are,
// and where graphs are on a device that shares the host's memory.
#ifndef VICINAL_ENGINE_COORDINATION_RESOURCE_DESCRIPTIONS_H_
#define VICINAL_ENGINE_COORDINATION_RESOURCE_DESCRIPTIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "engine/api/resources.h"
#include "engine/device/device.h"
#include "engine/durable/durable_store.h"
#include "engine/store/graph_store.h"
#include "engine/store/model_store.h"

namespace vicinal {

// Thread-safe once started.
class ResourceDescriptions {
 public:
  // `device`: where graphs and features are.
  ResourceDescriptions(std::string_view incarnation, DeviceKind device) : incarnation_(incarnation), device_(device) {}
  // Before the first call. Null: there is no state directory. It must outlive the calls.
  void Start(const durable::DurableStore* durable) { durable_ = durable; }

  GraphResource Of(const GraphStatus& status) const;
  FeatureSetResource Of(const FeatureSet& set) const;
  ModelResource Of(const StoredModel& model) const;
  std::vector<ModelResource> Of(const std::vector<ModelHandle>& models) const;

 private:
  template <class Resource>
  Resource Completed(Resource resource) const;
  template <class Resource>
  std::vector<Resource> Completed(std::vector<Resource> resources) const;

  const std::string incarnation_;
  const DeviceKind device_;
  const durable::DurableStore* durable_ = nullptr;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_COORDINATION_RESOURCE_DESCRIPTIONS_H_

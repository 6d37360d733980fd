// SPDX-License-Identifier: Apache-2.0
#include "engine/coordination/resource_descriptions.h"

#include <utility>

#include "engine/execute/describe.h"

namespace vicinal {

template <class Resource>
Resource ResourceDescriptions::Completed(Resource resource) const {
  if constexpr (requires { resource.incarnation; }) resource.incarnation = incarnation_;
  if constexpr (requires { resource.serving->tier; }) {
    const bool one_memory = device_ == DeviceKind::kCpu;
    if (one_memory && resource.serving && resource.serving->in_memory()) resource.serving->tier = Tier::kHost;
  }
  if (durable_ != nullptr) durable_->Describe(&resource);
  return resource;
}

template <class Resource>
std::vector<Resource> ResourceDescriptions::Completed(std::vector<Resource> resources) const {
  for (Resource& resource : resources) resource = Completed(std::move(resource));
  return resources;
}

GraphResource ResourceDescriptions::Of(const GraphStatus& status) const { return Completed(ResourceOf(status)); }

FeatureSetResource ResourceDescriptions::Of(const FeatureSet& set) const { return Completed(ResourceOf(set)); }

ModelResource ResourceDescriptions::Of(const StoredModel& model) const { return Completed(ResourceOf(model)); }

std::vector<ModelResource> ResourceDescriptions::Of(const std::vector<ModelHandle>& models) const {
  return Completed(ResourcesOf(models));
}

}  // namespace vicinal

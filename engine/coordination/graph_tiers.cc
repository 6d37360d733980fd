// SPDX-License-Identifier: Apache-2.0
#include "engine/coordination/graph_tiers.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal {

GraphTiers::GraphTiers(const Parts& parts)
    : parts_(parts),
      evictor_({parts.graphs, parts.logger, parts.stats, [this](const std::string& name) { return MayLeave(name); },
                [this](const std::string& name) { return WillBeOnDisk(name); },
                [this](const std::string& name, int64_t version) { parts_.plans->Release(name, version); },
                parts.device}) {}

Status GraphTiers::BringIn(const std::string& graph, const WorkLimits& limits) const {
  if (!MustBeLoaded(graph)) return OkStatus();
  return WithRetry(loader_->LoadAndWait(graph, limits, *parts_.clock));
}

Status GraphTiers::Load(const std::string& graph, const WorkLimits& limits, durable::GraphLoader::Done done) const {
  return loader_->Load(graph, limits,
                       [this, done = std::move(done)](const Status& loaded) { done(WithRetry(loaded)); });
}

bool GraphTiers::EvictFromDevice(int64_t bytes) {
  MutexLock lock(&leaving_mutex_);  // who looks at a graph keeps it from leaving
  if (parts_.budget->Snapshot().plans + evictor_.DeviceBytes() < bytes) return false;
  int64_t freed = parts_.plans->Evict(bytes);
  if (freed < bytes) freed += evictor_.EvictFromDevice(bytes - freed);
  return freed > 0 || parts_.receptive_fields->Evict() || parts_.side_receptive_fields->Evict();
}

std::optional<StoredGraph> GraphTiers::MayLeave(const std::string& name) const {
  const StatusOr<GraphStatus> status = parts_.graphs->Get(name);
  if (!status.ok() || status->graph == nullptr) return std::nullopt;
  const GraphResource resource = parts_.descriptions->Of(*status);
  if (!resource.serving) return std::nullopt;
  const auto stays = [&](Durability durability) {
    return parts_.has_state_directory && durability != Durability::kDurable;
  };
  if (stays(resource.serving->durability)) return std::nullopt;
  for (const FeatureSetResource& set : resource.feature_sets) {
    if (stays(set.durability)) return std::nullopt;
  }
  return StoredGraph{*resource.serving, resource.node_count, resource.edge_count, resource.feature_sets};
}

bool GraphTiers::WillBeOnDisk(const std::string& name) const {
  const StatusOr<GraphStatus> status = parts_.graphs->Get(name);
  if (!status.ok() || status->graph == nullptr) return false;
  const GraphResource resource = parts_.descriptions->Of(*status);
  const auto lost = [](Durability durability) { return durability == Durability::kMemory; };
  if (!resource.serving || lost(resource.serving->durability)) return false;
  return std::none_of(resource.feature_sets.begin(), resource.feature_sets.end(),
                      [&](const FeatureSetResource& set) { return lost(set.durability); });
}

Status GraphTiers::WithRetry(const Status& status) const {
  std::optional<ErrorDetail> detail = DetailOf(status);
  if (!parts_.has_state_directory || !detail || detail->reason != "BUDGET_FULL") return status;
  const auto missing = detail->metadata.find("missingBytes");
  int64_t bytes = 0;
  if (missing == detail->metadata.end() || !absl::SimpleAtoi(missing->second, &bytes)) return status;
  if (evictor_.PendingBytes() < bytes) return status;
  detail->metadata.erase(missing);
  detail->retry_after = std::chrono::seconds(1);
  return MakeError(status.code(), absl::StrCat(status.message(), ", or retry once graphs are on disk and not in use"),
                   *detail);
}

Status GraphTiers::UnlessForGood(const Status& status) const {
  const auto detail = DetailOf(WithRetry(status));
  return detail && detail->retry_after ? OkStatus() : status;
}

}  // namespace vicinal

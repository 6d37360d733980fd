// SPDX-License-Identifier: Apache-2.0
#include "engine/store/graph_evictor.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace vicinal {

bool GraphEvictor::Evict(int64_t bytes) {
  int64_t freed = 0;
  for (const GraphUse& use : parts_.graphs->ByLastUse()) {
    if (freed >= bytes) break;
    if (use.pinned) continue;
    const int64_t size = use.left_device ? parts_.graphs->DropHostCopy(use.name, use.version) : EvictOne(use);
    if (size == 0) continue;
    freed += size;
    parts_.stats->GraphEvicted();
    Log("graph evicted", use, size);
  }
  return freed > 0;
}

int64_t GraphEvictor::EvictOne(const GraphUse& use) {
  std::optional<StoredGraph> stored = parts_.stored(use.name);
  if (!stored || stored->serving.version != use.version) return 0;
  int64_t size = stored->serving.size_bytes;
  for (const FeatureSetResource& set : stored->feature_sets) size += set.size_bytes;
  parts_.release(use.name, use.version);
  stored->serving.tier = Tier::kDisk;
  return parts_.graphs->Evict(use.name, *std::move(stored)) ? size : 0;
}

int64_t GraphEvictor::EvictFromDevice(int64_t bytes) {
  int64_t freed = 0;
  for (const GraphUse& use : parts_.graphs->ByLastUse()) {
    if (freed >= bytes) break;
    if (use.pinned || use.left_device) continue;
    std::optional<StoredGraph> stored = parts_.stored(use.name);
    if (!stored || stored->serving.version != use.version) continue;
    parts_.release(use.name, use.version);
    stored->serving.tier = Tier::kHost;
    const std::shared_ptr<HostCopy> copy = parts_.graphs->LeaveDevice(use.name, *std::move(stored));
    if (copy == nullptr) continue;
    const StatusOr<int64_t> left = copy->LeaveDevice(*parts_.device);
    if (!left.ok()) {
      parts_.logger->Log(LogLevel::kWarning, "graph not copied to the host: features stay on the device",
                         {{"graph", use.name}, {"error", std::string(left.status().message())}});
      continue;
    }
    freed += *left;
    parts_.stats->GraphLeftDevice();
    Log("graph left the device", use, *left);
  }
  return freed;
}

int64_t GraphEvictor::DeviceBytes() const {
  int64_t bytes = 0;
  for (const GraphUse& use : parts_.graphs->ByLastUse()) {
    if (!use.pinned) bytes += use.device_bytes;
  }
  return bytes;
}

void GraphEvictor::Log(const char* what, const GraphUse& use, int64_t bytes) const {
  parts_.logger->Log(LogLevel::kDebug, what,
                     {{"graph", use.name}, {"version", absl::StrCat(use.version)}, {"bytes", absl::StrCat(bytes)}});
}

int64_t GraphEvictor::PendingBytes() const {
  int64_t bytes = 0;
  for (const GraphUse& use : parts_.graphs->ByLastUse()) {
    if (use.pinned || !(parts_.stored(use.name) || parts_.will_be_stored(use.name))) continue;
    const StatusOr<GraphStatus> status = parts_.graphs->Get(use.name);
    if (!status.ok() || status->graph == nullptr) continue;
    bytes += status->graph->size_bytes();
    for (const FeatureSetHandle& set : status->feature_sets) bytes += set->size_bytes();
  }
  return bytes;
}

}  // namespace vicinal

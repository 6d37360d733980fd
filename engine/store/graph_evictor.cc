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
    std::optional<StoredGraph> stored = parts_.stored(use.name);
    if (!stored || stored->serving.version != use.version) continue;
    int64_t size = stored->serving.size_bytes;
    for (const FeatureSetResource& set : stored->feature_sets) size += set.size_bytes;
    parts_.release(use.name, use.version);
    stored->serving.resident = false;
    if (!parts_.graphs->Evict(use.name, *std::move(stored))) continue;
    freed += size;
    parts_.stats->GraphEvicted();
    parts_.logger->Log(LogLevel::kInfo, "graph evicted",
                       {{"graph", use.name}, {"version", absl::StrCat(use.version)}, {"bytes", absl::StrCat(size)}});
  }
  return freed > 0;
}

int64_t GraphEvictor::PendingBytes() const {
  int64_t bytes = 0;
  for (const GraphUse& use : parts_.graphs->ByLastUse()) {
    if (use.pinned || !(parts_.stored(use.name) || parts_.will_be_stored(use.name))) continue;
    const StatusOr<GraphStatus> status = parts_.graphs->Get(use.name);
    if (!status.ok() || status->graph == nullptr) continue;
    bytes += status->graph->size_bytes();
    for (const FeatureSetHandle& set : status->feature_sets) bytes += set->matrix->size_bytes();
  }
  return bytes;
}

}  // namespace vicinal

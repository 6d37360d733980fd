// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/build/build_context.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/tune/work.h"

namespace vicinal::internal {
namespace {

int64_t NumGraphs(const PreparedGraph& graph) {
  const int64_t ends = static_cast<int64_t>(graph.parts().segments.size());
  return ends > 0 ? ends - 1 : 1;
}

}  // namespace

AdjacencyShape AdjacencyShapes::Of(const AdjacencySpec& spec) {
  for (const auto& [known, shape] : known_) {
    if (known == spec) return shape;
  }
  known_.emplace_back(spec, graph_.ShapeOf(spec));
  return known_.back().second;
}

const std::string* UnfitSettings::Find(const TuningKey& key) const {
  const auto found = std::find_if(unfit_.begin(), unfit_.end(), [&](const Unfit& unfit) { return unfit.key == key; });
  return found == unfit_.end() ? nullptr : &found->reason;
}

std::string UnfitSettings::Add(const TuningKey& key, std::string_view kernel, const Status& refusal) {
  unfit_.push_back({key, std::string(refusal.message())});
  return absl::StrCat(
      Describe(key), ": ", std::string(kernel),
      ", which tuning chose, does not support this adjacency, so the default serves: ", unfit_.back().reason);
}

BuildContext::BuildContext(const PlanRequest& request, const KernelRegistry& registry, Device& device,
                           const StopCheck& stop)
    : request(request),
      registry(registry),
      device(device),
      stop(stop),
      num_graphs(NumGraphs(*request.graph)),
      shapes(*request.graph) {}

}  // namespace vicinal::internal

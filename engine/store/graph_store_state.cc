// SPDX-License-Identifier: Apache-2.0
#include "engine/store/graph_store_state.h"

#include <algorithm>
#include <utility>

#include "engine/store/version_errors.h"

namespace vicinal {
using internal::GraphEntry;
using internal::HandleOf;
using internal::TooMany;

GraphStore::State::State(Options given) : options(given) {
  if (options.clock == nullptr) options.clock = &Clock::Real();
  if (options.graph_versions == nullptr) options.graph_versions = &own_graph_versions;
  if (options.feature_versions == nullptr) options.feature_versions = &own_feature_versions;
}

FeatureSetHandle GraphStore::State::MakeFeatureSet(const std::string& graph, const std::string& name,
                                                   VersionClaim version, std::shared_ptr<const FeatureMatrix> matrix,
                                                   std::shared_ptr<Reservation> memory, std::string source_digest) {
  FeatureSet set;
  set.graph = graph;
  set.name = name;
  set.version = version.Take();
  set.create_time = options.clock->WallNow();
  set.matrix = std::move(matrix);
  set.memory = std::move(memory);
  set.source_digest = std::move(source_digest);
  return HandleOf(std::move(set));
}

GraphEntry* GraphStore::State::FindStored(const std::string& name, int64_t version) {
  const auto found = entries.find(name);
  if (found == entries.end() || !found->second.stored) return nullptr;
  return found->second.stored->serving.version == version ? &found->second : nullptr;
}

Status GraphStore::State::AdmitName(std::string* evicted) {
  // What is lost on disk takes no place, and must not pass for something that never was.
  const auto takes_place = [](const auto& e) { return e.second.load_error.ok(); };
  if (std::count_if(entries.begin(), entries.end(), takes_place) < options.max_graphs) return OkStatus();
  const auto failed = std::find_if(entries.begin(), entries.end(), [&](const auto& e) {
    return takes_place(e) && e.second.state() == GraphState::kFailed;
  });
  if (failed == entries.end()) return TooMany("graph", "max_graphs", options.max_graphs);
  *evicted = failed->first;
  entries.erase(failed);
  return OkStatus();
}

}  // namespace vicinal

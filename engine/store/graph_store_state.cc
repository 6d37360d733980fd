// SPDX-License-Identifier: Apache-2.0
#include "engine/store/graph_store_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/store/version_errors.h"

namespace vicinal {
using internal::GraphEntry;
using internal::GraphReplaced;
using internal::HandleOf;
using internal::Quoted;
using internal::Retire;
using internal::TooMany;
using internal::VersionDiffers;

GraphStore::State::State(Options given) : options(given) {
  if (options.clock == nullptr) options.clock = &Clock::Real();
  if (options.graph_versions == nullptr) options.graph_versions = &own_graph_versions;
  if (options.feature_versions == nullptr) options.feature_versions = &own_feature_versions;
}

FeatureSetHandle GraphStore::State::Number(FeatureSet set, VersionClaim version) {
  set.version = version.Take();
  set.create_time = options.clock->WallNow();
  return HandleOf(std::move(set));
}

StatusOr<FeatureSetHandle> GraphStore::State::Put(FeatureSet given, int64_t graph_version, bool replace,
                                                  int64_t if_version) {
  VICINAL_ASSIGN_OR_RETURN(VersionClaim claim, options.feature_versions->Claim());
  const std::string graph = given.graph;
  const FeatureSetKey key = KeyOf(given);
  const char* const type = TypeName(key.first);
  FeatureSetHandle set, old;
  {
    MutexLock lock(&mutex);
    const auto found = entries.find(graph);
    if (found == entries.end()) return NotFound("graph", graph, "upload it first");
    GraphEntry& entry = found->second;
    if (!entry.graph)
      return FailedPrecondition("GRAPH_NOT_READY", absl::StrCat(Quoted("graph", graph), " is not ready"));
    if (entry.version() != graph_version) return GraphReplaced(graph, entry.version());
    const auto current = entry.features.find(key);
    const bool exists = current != entry.features.end();
    if (exists && !replace) return AlreadyExists(type, key.second, "set replace to replace it");
    const int64_t version_now = exists ? current->second->version : 0;
    if (if_version != 0 && if_version != version_now) return VersionDiffers(type, key.second, version_now, if_version);
    if (!exists && static_cast<int64_t>(entry.features.size()) >= options.max_feature_sets) {
      return TooMany("feature set", "max_feature_sets", options.max_feature_sets);
    }
    set = Number(std::move(given), std::move(claim));
    old = std::exchange(entry.features[key], set);
    entry.lost_features.erase(key);
    Retire(old);
  }
  watchers.Notify(graph);
  return set;
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

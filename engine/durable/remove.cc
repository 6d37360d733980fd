// SPDX-License-Identifier: Apache-2.0
// What goes from disk: versions that others have replaced, and those that clients delete.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/durable/durable_store.h"
#include "engine/durable/version_ids.h"

namespace vicinal::durable {

using state::Store;
using state::VersionId;

void DurableStore::RemoveReplaced(std::chrono::seconds age) {
  const MonotonicTime now = parts_.clock->Now();
  std::vector<VersionId> old;
  if (!loaded()) return;  // a later version may turn out to be damaged
  {
    MutexLock lock(&mutex_);
    std::map<VersionId, MonotonicTime> replaced;
    std::map<VersionId, VersionId> latest;  // of each name, which has version 0 here; versions of one name rise
    for (const VersionId& id : published_) {
      VersionId name = id;
      name.version = 0;
      const auto [known, is_first] = latest.try_emplace(name, id);
      if (is_first) continue;
      const auto noted = replaced_.find(known->second);
      replaced[known->second] = noted == replaced_.end() ? now : noted->second;
      known->second = id;
    }
    replaced_ = std::move(replaced);
    for (const auto& [id, since] : replaced_) {
      if (now - since >= age) old.push_back(id);
    }
  }
  for (const VersionId& id : old) {
    const Status removed = RemoveFromDisk(id);
    if (removed.ok()) continue;
    Count(removed);
    parts_.logger->Log(LogLevel::kWarning, "replaced version not removed from disk",
                       {{"version", state::Describe(id)}, {"error", std::string(removed.message())}});
  }
}

// --- deletion ---

// A version that is not in its store any more is deleted. The stores were asked to delete it before, so nothing of that
// name is written any more, but for what a later upload has published under another version.

// With a version go those that it replaced and that are still on disk: they must not come back in its place.
int64_t DurableStore::LastToRemove(const IdFilter& is_of_name, int64_t version) const {
  if (version == 0) return std::numeric_limits<int64_t>::max();
  const auto is_it = [&](const VersionId& id) { return id.version == version && is_of_name(id); };
  MutexLock lock(&mutex_);
  const bool known =
      std::any_of(published_.begin(), published_.end(), is_it) ||
      std::any_of(failures_.begin(), failures_.end(), [&](const auto& entry) { return is_it(entry.first); });
  return known ? version : 0;
}

Status DurableStore::RemoveGraph(const std::string& name, int64_t version) {
  const auto is_of_name = [&](const VersionId& id) {
    return (id.store == Store::kGraphs && id.name == name) || (state::BelongsToGraph(id.store) && id.graph == name);
  };
  const auto is_graph = [&](const VersionId& id) { return id.store == Store::kGraphs && id.name == name; };
  const int64_t last = LastToRemove(is_graph, version);
  const auto is_deleted = [&](const VersionId& id) {
    return is_graph(id) && id.version <= last && !parts_.graphs->Has(name, id.version);
  };
  return Remove(is_of_name, is_deleted, is_of_name, "graph", name);
}

Status DurableStore::RemoveFeatures(const std::string& graph, const std::string& name, FeatureKind kind,
                                    int64_t version) {
  const auto is_of_name = [&](const VersionId& id) {
    return id.store == StoreOf(kind) && id.graph == graph && id.name == name;
  };
  const int64_t last = LastToRemove(is_of_name, version);
  const auto is_deleted = [&](const VersionId& id) {
    return is_of_name(id) && id.version <= last && !parts_.graphs->Has(graph, id.graph_version, name, id.version, kind);
  };
  // A graph that is being written takes the set with it.
  const auto is_written_with = [&](const VersionId& id) {
    return is_of_name(id) || (id.store == Store::kGraphs && id.name == graph);
  };
  return Remove(is_written_with, is_deleted, is_of_name, TypeName(kind), name);
}

Status DurableStore::RemoveModel(const std::string& name, int64_t version) {
  const auto is_of_name = [&](const VersionId& id) { return id.store == Store::kModels && id.name == name; };
  const int64_t last = LastToRemove(is_of_name, version);
  const auto is_deleted = [&](const VersionId& id) {
    return is_of_name(id) && id.version <= last && !parts_.models->Find(name, id.version).ok();
  };
  return Remove(is_of_name, is_deleted, is_of_name, "model", name);
}

Status DurableStore::Remove(const IdFilter& is_written_with, const IdFilter& is_deleted, const IdFilter& is_of_name,
                            const char* type, const std::string& name) {
  std::vector<VersionId> deleted;
  {
    MutexLock lock(&mutex_);
    while (writing_.has_value() && is_written_with(*writing_)) changed_.Wait(&mutex_);
    std::set<VersionId> on_disk = published_;
    on_disk.insert(unread_.begin(), unread_.end());
    for (const VersionId& id : on_disk) {
      if (is_deleted(id)) deleted.push_back(id);
    }
  }
  if (deleted.empty()) {  // it may be in a directory that could not be listed at the start
    for (const VersionId& id : parts_.directory->ListPublished(nullptr).value_or(std::set<VersionId>())) {
      if (is_deleted(id)) deleted.push_back(id);
    }
  }
  // The latest last: until then nothing that it replaced can come back in its place, and the call can be repeated.
  for (const VersionId& id : deleted) {
    const Status removed = RemoveFromDisk(id);
    if (removed.ok()) continue;
    Count(removed);
    return Annotate(removed, absl::StrCat(type, " '", name,
                                          "' is deleted in memory, but not on disk, and would come back with the next "
                                          "start; delete it again"));
  }
  const Status forgotten = parts_.directory->ForgetLost(is_of_name);
  if (!forgotten.ok() && forgotten.code() != StatusCode::kNotFound) {
    Count(forgotten);
    return Annotate(forgotten,
                    absl::StrCat("that ", type, " '", name, "' is deleted could not be kept; delete it again"));
  }
  MutexLock lock(&mutex_);
  std::erase_if(failures_, [&](const auto& failure) {
    const VersionId& id = failure.first;
    return is_deleted(id) || (state::BelongsToGraph(id.store) && is_deleted(state::GraphOf(id)));
  });
  return deleted.empty() && !forgotten.ok() ? NotFound(type, name) : OkStatus();
}

Status DurableStore::RemoveFromDisk(const VersionId& id) {
  Status removed = parts_.directory->Remove(id, state::StateDirectory::Data::kLeaveToSweep);
  if (!removed.ok() && removed.code() != StatusCode::kNotFound) return removed;
  if (parts_.tuning != nullptr && id.store == Store::kGraphs) parts_.tuning->Detach(id.name, id.version);
  if (parts_.layouts != nullptr && id.store == Store::kGraphs) parts_.layouts->Forget(id.name, id.version);
  const auto is_gone = [&](const VersionId& version) {
    return version == id ||
           (id.store == Store::kGraphs && state::BelongsToGraph(version.store) && state::GraphOf(version) == id);
  };
  MutexLock lock(&mutex_);
  std::erase_if(published_, is_gone);
  std::erase_if(unread_, is_gone);
  std::erase_if(disk_bytes_, [&](const auto& known) { return is_gone(known.first); });
  return OkStatus();
}

}  // namespace vicinal::durable

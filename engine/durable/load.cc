// SPDX-License-Identifier: Apache-2.0
// The start: what is on disk comes back.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/durable/durable_store.h"
#include "engine/durable/failures.h"
#include "engine/durable/read_ahead.h"
#include "engine/durable/version_ids.h"

namespace vicinal::durable {
namespace {

using state::Manifest;
using state::Store;
using state::VersionId;

// What a start finds: the latest version of each graph, whether it can be read or not, and all that can.
struct Found {
  std::map<std::string, VersionId> graphs;
  std::map<VersionId, Manifest> graph_manifests;
  std::map<VersionId, std::vector<Manifest>> sets;      // of each graph version
  std::map<std::string, std::vector<Manifest>> models;  // versions rise
};

Found FindIn(state::Listing listing) {
  Found found;
  const auto keep_latest = [&](const VersionId& id) {
    const auto [latest, is_new] = found.graphs.try_emplace(id.name, id);
    if (!is_new && latest->second.version < id.version) latest->second = id;
  };
  for (const state::ListedProblem& problem : listing.problems) {
    if (problem.id && problem.id->store == Store::kGraphs) keep_latest(*problem.id);
  }
  for (Manifest& manifest : listing.published) {
    const VersionId id = manifest.id;
    if (id.store == Store::kGraphs) {
      keep_latest(id);
      found.graph_manifests.emplace(id, std::move(manifest));
    } else if (id.store == Store::kModels) {
      found.models[id.name].push_back(std::move(manifest));
    } else {
      found.sets[state::GraphOf(id)].push_back(std::move(manifest));
    }
  }
  return found;
}

// Whether it is a version that will be loaded, or belongs to one: then the loader finds the problem again, and knows
// what serves instead.
bool IsFoundByLoader(const VersionId& id, const std::map<std::string, VersionId>& latest) {
  if (id.store == Store::kModels) return false;
  const VersionId graph = state::BelongsToGraph(id.store) ? state::GraphOf(id) : id;
  const auto found = latest.find(graph.name);
  return found != latest.end() && found->second == graph;
}

}  // namespace

Status DurableStore::Load() {
  VICINAL_ASSIGN_OR_RETURN(state::Listing listing, parts_.directory->List());
  const std::vector<state::ListedProblem> problems = listing.problems;
  std::set<VersionId> published;
  std::map<VersionId, int64_t> disk_bytes;
  for (const Manifest& manifest : listing.published) {
    published.insert(manifest.id);
    disk_bytes[manifest.id] = parts_.directory->DiskBytes(manifest);
  }
  {
    MutexLock lock(&mutex_);
    published_ = published;
    disk_bytes_ = std::move(disk_bytes);
    for (const state::ListedProblem& problem : problems) {
      if (problem.id) unread_.insert(*problem.id);
    }
  }
  Found found = FindIn(std::move(listing));
  for (const state::ListedProblem& problem : problems) {
    if (!problem.id) {
      parts_.logger->Log(LogLevel::kError, "state directory: cannot be read",
                         {{"path", problem.path}, {"error", std::string(problem.error.message())}});
    } else if (!IsFoundByLoader(*problem.id, found.graphs)) {
      const Status told = CannotLoad(*problem.id, problem.error);
      if (problem.id->store == Store::kModels) parts_.models->SetLost(problem.id->name, told);
    }
  }
  for (const auto& [name, versions] : found.models) LoadLatestModel(versions);
  for (const auto& [name, id] : found.graphs) published.insert(id);  // also what cannot be read: the loader tells
  RecallLost(published);
  if (!parts_.read_only) ForgetReplaced(published);
  const std::vector<std::string> order = LoadOrder(*parts_.directory, found.graphs);
  MonotonicTime last_use{};
  for (const std::string& name : order) {
    const VersionId& id = found.graphs.at(name);
    const auto manifest = found.graph_manifests.find(id);
    parts_.graphs->BeginLoad(
        name,
        manifest == found.graph_manifests.end() ? DescribeUnread(id) : DescribeStored(manifest->second, found.sets[id]),
        last_use);
    last_use -= Nanoseconds(1);
  }
  {
    MutexLock lock(&mutex_);
    recent_ = order;
  }
  loader_.LoadAll(order);
  return OkStatus();
}

void DurableStore::LoadLatestModel(const std::vector<Manifest>& versions) {
  for (auto manifest = versions.rbegin(); manifest != versions.rend(); ++manifest) {
    const Status loaded = LoadModel(*manifest);
    if (loaded.ok()) return;
    parts_.models->SetLost(manifest->id.name, CannotLoad(manifest->id, loaded));
    if (loaded.code() != StatusCode::kDataLoss) return;  // it may come back with the next start
  }
}

Status DurableStore::LoadModel(const Manifest& manifest, const std::function<void(const StoredModel& model)>& before) {
  VICINAL_ASSIGN_OR_RETURN(const int64_t bound, ModelBytesBound(*parts_.directory, manifest));
  VICINAL_ASSIGN_OR_RETURN(Reservation memory, parts_.budget->Reserve(Account::kPreparing, bound,
                                                                      absl::StrCat("model '", manifest.id.name, "'")));
  VICINAL_ASSIGN_OR_RETURN(StoredModel model, ReadModel(*parts_.directory, manifest));
  memory.Shrink(model.model->size_bytes);
  model.memory = std::make_shared<Reservation>(std::move(memory));
  if (before) before(model);
  parts_.models->Adopt(std::move(model));
  parts_.logger->Log(LogLevel::kInfo, "model loaded",
                     {{"model", manifest.id.name}, {"version", absl::StrCat(manifest.id.version)}});
  return OkStatus();
}

// What an earlier start, or this one, has moved to quarantine.
void DurableStore::RecallLost(const std::set<VersionId>& published) {
  const Status list = parts_.directory->CheckLost();
  if (list.code() == StatusCode::kDataLoss) {
    Count(list);
    parts_.logger->Log(LogLevel::kError, "list of lost versions damaged: what lies in quarantine/ counts as lost",
                       {{"error", std::string(list.message())}});
  }
  const StatusOr<std::vector<state::LostVersion>> lost = parts_.directory->Lost();
  if (!lost.ok()) {
    Count(lost.status());
    parts_.logger->Log(LogLevel::kError, "unknown what was lost: requests for it get NOT_FOUND",
                       {{"error", std::string(lost.status().message())}});
    return;
  }
  for (const state::LostVersion& version : state::StillLost(*lost, published)) {
    const VersionId& id = version.id;
    if (id.store == Store::kModels) parts_.models->SetLost(id.name, LostError(version));
    if (id.store != Store::kGraphs) continue;  // feature sets: with their graph
    parts_.graphs->BeginLoad(id.name, DescribeUnread(id), MonotonicTime{});
    parts_.graphs->FailLoad(id.name, id.version, LostError(version));
  }
}

// Of what a later version has replaced, or has gone with its graph, nobody will ask again.
void DurableStore::ForgetReplaced(const std::set<VersionId>& published) {
  const auto is_replaced = [&](const VersionId& id) {
    if (state::BelongsToGraph(id.store) && !published.contains(state::GraphOf(id))) return true;
    return std::any_of(published.begin(), published.end(), [&](const VersionId& other) { return Replaces(other, id); });
  };
  const Status forgotten = parts_.directory->ForgetLost(is_replaced);
  if (forgotten.ok() || forgotten.code() == StatusCode::kNotFound) return;
  Count(forgotten);
  parts_.logger->Log(LogLevel::kWarning, "list of lost versions not cleaned up",
                     {{"error", std::string(forgotten.message())}});
}

Status DurableStore::CannotLoad(const VersionId& id, const Status& error) {
  Count(error);
  Status told = error;
  std::string message = "version not loaded";
  LogFields fields = {{"version", state::Describe(id)}, {"error", std::string(error.message())}};
  if (error.code() == StatusCode::kDataLoss && !parts_.read_only) {
    const StatusOr<std::string> moved = parts_.directory->Quarantine(id, error);
    message = moved.ok() ? "version damaged: moved to quarantine" : "version damaged: not moved to quarantine";
    fields.emplace_back(moved.ok() ? "quarantine" : "quarantine_error",
                        moved.ok() ? *moved : std::string(moved.status().message()));
    if (moved.ok()) {
      told = LostError({id, std::string(error.message()), *moved});
      MutexLock lock(&mutex_);
      published_.erase(id);
      unread_.erase(id);
      disk_bytes_.erase(id);
    }
  }
  parts_.logger->Log(LogLevel::kError, message, fields);
  return told;
}

}  // namespace vicinal::durable

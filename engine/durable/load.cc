// SPDX-License-Identifier: Apache-2.0
// The start: what is on disk comes back.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/durable/durable_store.h"

namespace vicinal::durable {
namespace {

using state::Manifest;
using state::Store;
using state::VersionId;

std::string KeyOf(const std::string& graph, int64_t version) { return absl::StrCat(graph, "\n", version); }

}  // namespace

Status DurableStore::Load() {
  VICINAL_ASSIGN_OR_RETURN(state::Listing listing, parts_.directory->List());
  for (const state::ListedProblem& problem : listing.problems) {
    if (problem.id) {
      CannotLoad(*problem.id, problem.error);
    } else {
      parts_.logger->Log(LogLevel::kError, "state directory: cannot be read",
                         {{"path", problem.path}, {"error", std::string(problem.error.message())}});
    }
  }
  // The latest version of each name. Listed by id: versions of one name rise.
  std::map<std::string, Manifest> graphs, models;
  std::map<std::string, std::vector<Manifest>> sets;
  for (Manifest& manifest : listing.published) {
    {
      MutexLock lock(&mutex_);
      published_.insert(manifest.id);
    }
    const VersionId& id = manifest.id;
    if (id.store == Store::kGraphs)
      graphs[id.name] = std::move(manifest);
    else if (id.store == Store::kModels)
      models[id.name] = std::move(manifest);
    else
      sets[KeyOf(id.graph, id.graph_version)].push_back(std::move(manifest));
  }
  for (const auto& [name, manifest] : models) {
    const Status loaded = LoadModel(manifest);
    if (!loaded.ok()) CannotLoad(manifest.id, loaded);
  }
  const std::vector<std::string> order = LoadOrder(graphs);
  MonotonicTime last_use{};
  for (const std::string& name : order) {
    const Manifest& manifest = graphs.at(name);
    parts_.graphs->BeginLoad(name, DescribeStored(manifest, sets[KeyOf(name, manifest.id.version)]), last_use);
    last_use -= Nanoseconds(1);
  }
  {
    MutexLock lock(&mutex_);
    recent_ = order;
  }
  loader_.LoadAll(order);
  return OkStatus();
}

// Those that were used before the last stop, the latest first; then the others, the latest version first.
std::vector<std::string> DurableStore::LoadOrder(const std::map<std::string, Manifest>& graphs) const {
  std::vector<std::string> order = parts_.directory->GetRecent().value_or(std::vector<std::string>());
  std::erase_if(order, [&](const std::string& name) { return !graphs.contains(name); });
  const std::set<std::string> known(order.begin(), order.end());
  std::vector<std::pair<int64_t, std::string>> others;
  for (const auto& [name, manifest] : graphs) {
    if (!known.contains(name)) others.emplace_back(-manifest.id.version, name);
  }
  std::sort(others.begin(), others.end());
  for (auto& [version, name] : others) order.push_back(std::move(name));
  return order;
}

Status DurableStore::LoadModel(const Manifest& manifest) {
  VICINAL_ASSIGN_OR_RETURN(const int64_t bound, ModelBytesBound(*parts_.directory, manifest));
  VICINAL_ASSIGN_OR_RETURN(Reservation memory, parts_.budget->Reserve(Account::kPreparing, bound,
                                                                      absl::StrCat("model '", manifest.id.name, "'")));
  VICINAL_ASSIGN_OR_RETURN(StoredModel model, ReadModel(*parts_.directory, manifest));
  memory.Shrink(model.model->size_bytes);
  model.memory = std::make_shared<Reservation>(std::move(memory));
  parts_.models->Adopt(std::move(model));
  parts_.logger->Log(LogLevel::kInfo, "model loaded",
                     {{"model", manifest.id.name}, {"version", absl::StrCat(manifest.id.version)}});
  return OkStatus();
}

void DurableStore::CannotLoad(const VersionId& id, const Status& error) {
  Count(error);
  const bool damaged = error.code() == StatusCode::kDataLoss;
  Status moved = OkStatus();
  const bool moves = damaged && !parts_.read_only;
  if (moves) moved = parts_.directory->Quarantine(id, error);
  if (moves && moved.ok()) {
    MutexLock lock(&mutex_);
    published_.erase(id);
  }
  parts_.logger->Log(LogLevel::kError, moves ? "version damaged: moved to quarantine" : "version not loaded",
                     {{"version", state::Describe(id)},
                      {"error", std::string(error.message())},
                      {"quarantine", moved.ok() ? "" : std::string(moved.message())}});
}

}  // namespace vicinal::durable

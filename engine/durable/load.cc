// SPDX-License-Identifier: Apache-2.0
// The start: what is on disk comes back.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/durable/durable_store.h"
#include "engine/durable/graph_metadata.h"

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
  for (const auto& [name, manifest] : models) LoadModel(manifest);
  std::vector<Manifest> ordered;
  ordered.reserve(graphs.size());
  for (auto& [name, manifest] : graphs) {
    const StatusOr<GraphMetadata> metadata = ParseGraphMetadata(manifest);
    parts_.graphs->BeginLoad(name, manifest.id.version, metadata.ok() ? metadata->node_count : 0,
                             metadata.ok() ? metadata->edge_count : 0);
    ordered.push_back(std::move(manifest));
  }
  std::sort(ordered.begin(), ordered.end(),
            [](const Manifest& a, const Manifest& b) { return a.id.version > b.id.version; });
  if (ordered.empty()) return OkStatus();
  {
    MutexLock lock(&mutex_);
    loading_ = true;
  }
  loader_ = std::thread(
      [this, ordered = std::move(ordered), sets = std::move(sets)]() mutable { LoadGraphs(ordered, std::move(sets)); });
  return OkStatus();
}

void DurableStore::LoadGraphs(const std::vector<Manifest>& graphs, std::map<std::string, std::vector<Manifest>> sets) {
  const std::unique_ptr<DeviceContext> context = parts_.device->CreateContext();
  for (const Manifest& manifest : graphs) {
    if (stopping()) break;
    LoadGraph(manifest, sets[KeyOf(manifest.id.name, manifest.id.version)], context->thread_pool());
  }
  MutexLock lock(&mutex_);
  loading_ = false;
}

void DurableStore::LoadGraph(const Manifest& manifest, const std::vector<Manifest>& sets, ThreadPool* pool) {
  const VersionId& id = manifest.id;
  const auto load = [&]() -> StatusOr<ReadGraphResult> {
    VICINAL_ASSIGN_OR_RETURN(const int64_t bound, GraphBytesBound(manifest));
    VICINAL_ASSIGN_OR_RETURN(Reservation memory,
                             parts_.budget->Reserve(Account::kPreparing, bound, absl::StrCat("graph '", id.name, "'")));
    VICINAL_ASSIGN_OR_RETURN(ReadGraphResult result, ReadGraph(*parts_.directory, manifest, *parts_.device, pool));
    result.graph->AddReservation(memory.Split(result.graph->size_bytes()));
    return result;
  };
  const StatusOr<ReadGraphResult> graph = load();
  if (!graph.ok()) {
    CannotLoad(id, graph.status());
    return parts_.graphs->FinishLoad(id.name, id.version, graph.status(), {});
  }
  if (graph->former_revision != 0) {
    parts_.logger->Log(LogLevel::kWarning, "numerics revision changed: this build adds in another order",
                       {{"graph", id.name},
                        {"former", absl::StrCat(graph->former_revision)},
                        {"revision", absl::StrCat(graph->graph->parts().numerics_revision)}});
  }
  if (parts_.tuning != nullptr) parts_.tuning->Restore(*graph->graph);
  std::map<std::string, FeatureSet> loaded;  // the latest version of each name that can be read
  for (const Manifest& set : sets) {
    StatusOr<FeatureSet> features = LoadFeatures(set, graph->graph->num_nodes(), pool);
    if (features.ok()) {
      loaded[set.id.name] = *std::move(features);
    } else {
      CannotLoad(set.id, features.status());
    }
  }
  std::vector<FeatureSet> feature_sets;
  feature_sets.reserve(loaded.size());
  for (auto& [name, set] : loaded) feature_sets.push_back(std::move(set));
  parts_.logger->Log(LogLevel::kInfo, "graph loaded", {{"graph", id.name}, {"version", absl::StrCat(id.version)}});
  parts_.graphs->FinishLoad(id.name, id.version, graph->graph, std::move(feature_sets));
  parts_.on_load();
}

StatusOr<FeatureSet> DurableStore::LoadFeatures(const Manifest& manifest, int64_t num_nodes, ThreadPool* pool) {
  VICINAL_ASSIGN_OR_RETURN(const int64_t bound, FeatureBytesBound(manifest, *parts_.device));
  VICINAL_ASSIGN_OR_RETURN(
      Reservation memory,
      parts_.budget->Reserve(Account::kPreparing, bound, absl::StrCat("feature set '", manifest.id.name, "'")));
  VICINAL_ASSIGN_OR_RETURN(ReadFeaturesResult read,
                           ReadFeatures(*parts_.directory, manifest, num_nodes, *parts_.device, pool));
  memory.Shrink(read.matrix->size_bytes());
  FeatureSet set;
  set.graph = manifest.id.graph;
  set.name = manifest.id.name;
  set.version = manifest.id.version;
  set.create_time = read.create_time;
  set.matrix = std::move(read.matrix);
  set.memory = std::make_shared<Reservation>(std::move(memory));
  return set;
}

void DurableStore::LoadModel(const Manifest& manifest) {
  const auto load = [&]() -> Status {
    VICINAL_ASSIGN_OR_RETURN(const int64_t bound, ModelBytesBound(manifest));
    VICINAL_ASSIGN_OR_RETURN(
        Reservation memory,
        parts_.budget->Reserve(Account::kPreparing, bound, absl::StrCat("model '", manifest.id.name, "'")));
    VICINAL_ASSIGN_OR_RETURN(StoredModel model, ReadModel(*parts_.directory, manifest));
    memory.Shrink(model.model->size_bytes);
    model.memory = std::make_shared<Reservation>(std::move(memory));
    parts_.models->PutLoaded(std::move(model));
    return OkStatus();
  };
  const Status loaded = load();
  if (!loaded.ok()) return CannotLoad(manifest.id, loaded);
  parts_.logger->Log(LogLevel::kInfo, "model loaded",
                     {{"model", manifest.id.name}, {"version", absl::StrCat(manifest.id.version)}});
}

void DurableStore::CannotLoad(const VersionId& id, const Status& error) {
  const bool damaged = error.code() == StatusCode::kDataLoss;
  Status moved = OkStatus();
  if (damaged) moved = parts_.directory->Quarantine(id, error);
  if (damaged && moved.ok()) {
    MutexLock lock(&mutex_);
    published_.erase(id);
  }
  parts_.logger->Log(LogLevel::kError, damaged ? "version damaged: moved to quarantine" : "version not loaded",
                     {{"version", state::Describe(id)},
                      {"error", std::string(error.message())},
                      {"quarantine", moved.ok() ? "" : std::string(moved.message())}});
}

}  // namespace vicinal::durable

// SPDX-License-Identifier: Apache-2.0
// GraphLoader's reading: a graph version with its feature sets, its layouts and its tuning. Of each set the latest
// version that can be read; what cannot be is told with the graph. Runs outside the loader's locks.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/device/limited_device.h"
#include "engine/durable/failures.h"
#include "engine/durable/graph_codec.h"
#include "engine/durable/graph_loader.h"
#include "engine/durable/graph_metadata.h"
#include "engine/durable/version_ids.h"

namespace vicinal::durable {

using state::Manifest;
using state::VersionId;

namespace {

using VersionsBySet = std::map<FeatureSetKey, std::vector<const Manifest*>>;

// The listing of a graph version whose manifest can be read.
StatusOr<state::Listing> ListReadable(const state::StateDirectory& directory, const VersionId& graph) {
  VICINAL_ASSIGN_OR_RETURN(state::Listing listing, directory.ListGraph(graph));
  for (const state::ListedProblem& problem : listing.problems) {
    if (problem.id == graph) return problem.error;
  }
  return listing;
}

// Into `listing`; the versions of each set rise, for they are listed by id.
VersionsBySet SetsIn(const state::Listing& listing) {
  VersionsBySet sets;
  for (const Manifest& manifest : listing.published) {
    if (state::BelongsToGraph(manifest.id.store)) sets[KeyOf(manifest.id)].push_back(&manifest);
  }
  return sets;
}

// The bytes that the sets need in memory, each in whichever of its versions can be read.
int64_t LargestOfEach(const VersionsBySet& sets, const GraphSize& graph, const Device& device) {
  int64_t bytes = 0;
  for (const auto& [key, versions] : sets) {
    int64_t most = 0;
    for (const Manifest* const set : versions) {
      const StatusOr<int64_t> bound = FeatureBytesBound(*set, graph, device);
      if (bound.ok()) most = std::max(most, *bound);  // else reading it says why
    }
    bytes += most;
  }
  return bytes;
}

}  // namespace

StatusOr<GraphLoader::Loaded> GraphLoader::Read(const VersionId& id, bool evict, ThreadPool* pool) {
  VICINAL_ASSIGN_OR_RETURN(const state::Listing listing, ListReadable(*parts_.directory, id));
  const VersionsBySet sets = SetsIn(listing);
  const Manifest& manifest = listing.published.front();
  VICINAL_ASSIGN_OR_RETURN(const GraphMetadata metadata, ParseGraphMetadata(manifest));
  VICINAL_ASSIGN_OR_RETURN(int64_t bytes, GraphBytesBound(manifest));
  bytes += LargestOfEach(sets, {metadata.node_count, metadata.edge_count}, *parts_.device);
  ReserveOptions options;
  options.evict = evict;
  VICINAL_ASSIGN_OR_RETURN(Reservation memory, parts_.budget->Reserve(Account::kPreparing, bytes,
                                                                      absl::StrCat("graph '", id.name, "'"), options));
  const auto prefetch_sets = [&] {
    for (const auto& [key, versions] : sets) PrefetchFeatures(*parts_.directory, *versions.back());
  };
  VICINAL_ASSIGN_OR_RETURN(const ReadGraphResult read,
                           ReadGraph(*parts_.directory, manifest, *parts_.device, pool, prefetch_sets));
  read.graph->AddReservation(memory.Split(read.graph->size_bytes()));
  if (read.former_revision != 0) {
    parts_.logger->Log(LogLevel::kWarning, "numerics revision changed: this build adds in another order",
                       {{"graph", id.name},
                        {"former", absl::StrCat(read.former_revision)},
                        {"revision", absl::StrCat(read.graph->parts().numerics_revision)}});
  }
  if (parts_.tuning != nullptr) parts_.tuning->Restore(*read.graph);
  std::jthread layouts = RestoreLayouts(*read.graph, evict);  // joined wherever this ends
  Loaded loaded;
  loaded.graph = read.graph;
  for (const auto& [key, versions] : sets) {
    VICINAL_RETURN_IF_ERROR(ReadLatestSet(versions, &memory, pool, &loaded));
  }
  for (const state::ListedProblem& problem : listing.problems) {
    if (!problem.id) continue;
    loaded.lost[KeyOf(*problem.id)] = parts_.on_failure(*problem.id, problem.error);
  }
  VICINAL_RETURN_IF_ERROR(AddLostBefore(id, &loaded));
  if (layouts.joinable()) layouts.join();
  if (parts_.on_graph) parts_.on_graph(loaded.graph);
  return loaded;
}

StatusOr<StoredGraph> GraphLoader::ReadNewSets(const VersionId& id, bool evict, ThreadPool* pool, Loaded* loaded) {
  VICINAL_ASSIGN_OR_RETURN(const state::Listing listing, ListReadable(*parts_.directory, id));
  StoredGraph listed = DescribeStored(listing);
  parts_.graphs->ReplaceStored(id.name, id.version, listed);
  VersionsBySet sets = SetsIn(listing);
  for (const FeatureSet& set : loaded->feature_sets) {
    const auto versions = sets.find(vicinal::KeyOf(set));
    if (versions == sets.end()) continue;
    std::erase_if(versions->second, [&](const Manifest* manifest) { return manifest->id.version <= set.version; });
    if (versions->second.empty()) sets.erase(versions);
  }
  ReserveOptions options;
  options.evict = evict;
  const GraphSize size = {loaded->graph->num_nodes(), loaded->graph->num_edges()};
  VICINAL_ASSIGN_OR_RETURN(Reservation memory,
                           parts_.budget->Reserve(Account::kPreparing, LargestOfEach(sets, size, *parts_.device),
                                                  absl::StrCat("graph '", id.name, "'"), options));
  for (const auto& [key, versions] : sets) VICINAL_RETURN_IF_ERROR(ReadLatestSet(versions, &memory, pool, loaded));
  return listed;
}

// Beside the features: what is made of layouts and adjacencies goes on while those come from the disk. Features have
// their memory already.
std::jthread GraphLoader::RestoreLayouts(const PreparedGraph& graph, bool evict) const {
  if (parts_.layouts == nullptr) return {};
  std::vector<StoredLayout> listed = parts_.layouts->Listed(graph);
  if (listed.empty()) return {};
  return std::jthread([this, &graph, evict, listed = std::move(listed)]() mutable {
    std::optional<LimitedDevice::WithoutEviction> keep;
    if (!evict) keep.emplace();
    constexpr int kThreads = 4;
    ThreadPool pool(kThreads);
    parts_.layouts->Restore(graph, std::move(listed), evict, &pool);
  });
}

Status GraphLoader::ReadLatestSet(const std::vector<const Manifest*>& versions, Reservation* memory, ThreadPool* pool,
                                  Loaded* loaded) {
  for (auto manifest = versions.rbegin(); manifest != versions.rend(); ++manifest) {
    StatusOr<FeatureSet> features = ReadSet(**manifest, *loaded->graph, memory, pool);
    if (features.status().code() == StatusCode::kResourceExhausted) return features.status();
    if (features.ok()) {
      std::erase_if(loaded->feature_sets,
                    [&](const FeatureSet& set) { return vicinal::KeyOf(set) == vicinal::KeyOf(*features); });
      loaded->feature_sets.push_back(*std::move(features));
      break;
    }
    const VersionId& id = (*manifest)->id;
    loaded->lost.try_emplace(KeyOf(id), parts_.on_failure(id, features.status()));
    if (features.status().code() != StatusCode::kDataLoss) break;  // it may come back
  }
  return OkStatus();
}

// Sets that an earlier load has lost, and of which nothing is loaded.
Status GraphLoader::AddLostBefore(const VersionId& graph, Loaded* loaded) const {
  const StatusOr<std::vector<state::LostVersion>> lost = parts_.directory->Lost();
  if (lost.status().code() == StatusCode::kDataLoss) return OkStatus();  // the start has logged it
  if (!lost.ok()) return lost.status();
  for (const state::LostVersion& version : *lost) {
    const VersionId& id = version.id;
    if (!state::BelongsToGraph(id.store) || state::GraphOf(id) != graph) continue;
    const bool serves = std::any_of(loaded->feature_sets.begin(), loaded->feature_sets.end(),
                                    [&](const FeatureSet& set) { return vicinal::KeyOf(set) == KeyOf(id); });
    if (serves) continue;
    loaded->lost.try_emplace(KeyOf(id), LostError(version));
  }
  return OkStatus();
}

StatusOr<FeatureSet> GraphLoader::ReadSet(const Manifest& manifest, const PreparedGraph& graph, Reservation* memory,
                                          ThreadPool* pool) {
  FeatureSet set;
  set.kind = KindOf(manifest.id.store);
  ReadFeaturesResult read;
  if (set.kind == FeatureKind::kEdges) {
    VICINAL_ASSIGN_OR_RETURN(read, ReadEdgeFeatures(*parts_.directory, manifest, graph, *parts_.device, pool));
  } else {
    VICINAL_ASSIGN_OR_RETURN(read, ReadFeatures(*parts_.directory, manifest, graph.num_nodes(), *parts_.device, pool));
  }
  set.graph = manifest.id.graph;
  set.name = manifest.id.name;
  set.version = manifest.id.version;
  set.create_time = read.create_time;
  set.source_digest = std::move(read.source_digest);
  set.matrix = std::move(read.matrix);
  set.edges = std::move(read.edges);
  set.memory = std::make_shared<Reservation>(memory->Split(set.size_bytes()));
  return set;
}

}  // namespace vicinal::durable

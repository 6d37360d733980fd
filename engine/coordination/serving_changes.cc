// SPDX-License-Identifier: Apache-2.0
#include "engine/coordination/serving_changes.h"

#include "absl/strings/str_cat.h"

namespace vicinal {
namespace {

// The set of node features that plans are made for: `default`, or else the first. Null: there are none.
std::shared_ptr<const FeatureMatrix> UsualFeatures(const std::vector<FeatureSet>& feature_sets) {
  std::shared_ptr<const FeatureMatrix> usual;
  for (const FeatureSet& set : feature_sets) {
    if (set.kind != FeatureKind::kNodes) continue;
    if (usual == nullptr || set.name == kDefaultFeatureSet) usual = set.matrix;
  }
  return usual;
}

std::vector<FeatureSetHandle> EdgeSetsOf(const std::vector<FeatureSet>& feature_sets) {
  std::vector<FeatureSetHandle> edge_sets;
  for (const FeatureSet& set : feature_sets) {
    if (set.kind == FeatureKind::kEdges) edge_sets.push_back(std::make_shared<FeatureSet>(set));
  }
  return edge_sets;
}

}  // namespace

void ServingChanges::Seed(const PreparedGraph& graph) const {
  if (parts_.seeds == nullptr) return;
  const std::vector<TuningEntry> seeds = parts_.seeds->For(graph.parts().profile);
  if (seeds.empty()) return;
  graph.tuning().Seed(seeds);
  parts_.logger->Log(LogLevel::kInfo, "graph seeded with the choices of similar ones",
                     {{"graph", graph.parts().name}, {"records", absl::StrCat(seeds.size())}});
}

void ServingChanges::BeforeGraph(const std::shared_ptr<const PreparedGraph>& graph, const std::string& feature_set,
                                 const std::shared_ptr<const FeatureMatrix>& features, const StopCheck& stop) const {
  if (!parts_.graphs->IsServing(*graph)) Seed(*graph);
  parts_.plans_ahead->BeforeGraph(graph, features, {}, stop);
  std::vector<AnswersAhead::NamedFeatures> sets;
  if (features != nullptr) sets.push_back({feature_set, features});
  parts_.answers_ahead->BeforeGraph(graph, sets, {}, stop);
}

void ServingChanges::BeforeEdges(const std::shared_ptr<const PreparedGraph>& graph, const std::string& feature_set,
                                 const std::shared_ptr<const EdgeMatrix>& edges, const StopCheck& stop) const {
  auto set = std::make_shared<FeatureSet>();
  set->kind = FeatureKind::kEdges;
  set->name = feature_set;
  set->edges = edges;
  parts_.plans_ahead->BeforeEdges(graph, *edges, stop);
  parts_.answers_ahead->BeforeEdges(graph, set, stop);
}

void ServingChanges::BeforeModel(const std::string& name, const std::shared_ptr<const Model>& model,
                                 const StopCheck& stop) const {
  parts_.plans_ahead->BeforeModel(name, model, stop);
  parts_.answers_ahead->BeforeModel(name, model, stop);
}

void ServingChanges::BeforeLoaded(const std::shared_ptr<const PreparedGraph>& graph,
                                  const std::vector<FeatureSet>& feature_sets) const {
  parts_.plans_ahead->BeforeLoaded(graph, UsualFeatures(feature_sets), EdgeSetsOf(feature_sets));
}

void ServingChanges::AfterStart(const std::string& graph, const StopCheck& stop) const {
  const StatusOr<GraphStatus> status = parts_.graphs->Get(graph);
  if (!status.ok() || status->graph == nullptr) return;  // deleted, or evicted meanwhile
  std::vector<FeatureSet> sets;
  for (const FeatureSetHandle& set : status->feature_sets) sets.push_back(*set);
  parts_.plans_ahead->BeforeGraph(status->graph, UsualFeatures(sets), {}, stop);
}

void ServingChanges::BeforeFollowingGraph(const std::shared_ptr<const PreparedGraph>& graph,
                                          const std::vector<FeatureSet>& feature_sets, const StopCheck& stop) const {
  std::vector<AnswersAhead::NamedFeatures> sets;
  for (const FeatureSet& set : feature_sets) {
    if (set.kind == FeatureKind::kNodes) sets.push_back({set.name, set.matrix});
  }
  const std::vector<FeatureSetHandle> edge_sets = EdgeSetsOf(feature_sets);
  parts_.plans_ahead->BeforeGraph(graph, UsualFeatures(feature_sets), edge_sets, stop);
  parts_.answers_ahead->BeforeGraph(graph, sets, edge_sets, stop);
  if (!parts_.graphs->IsServing(*graph)) return;
  for (const FeatureSetHandle& set : edge_sets) BeforeEdges(graph, set->name, set->edges, stop);
}

void ServingChanges::GraphsChanged() const {
  DropStale();
  parts_.receptive_fields->Fit();
  parts_.side_receptive_fields->Fit();
}

void ServingChanges::FeaturesChanged() const { parts_.answers->PurgeStale(); }

void ServingChanges::DropStale() const {
  parts_.plans->PurgeStale();
  parts_.answers->PurgeStale();
}

}  // namespace vicinal

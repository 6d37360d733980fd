// SPDX-License-Identifier: Apache-2.0
#include "engine/coordination/serving_changes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace vicinal {
namespace {

// The set that plans are made for; null: there are none.
std::shared_ptr<const FeatureMatrix> UsualFeatures(const std::vector<FeatureSet>& feature_sets) {
  if (feature_sets.empty()) return nullptr;
  const auto usual = std::find_if(feature_sets.begin(), feature_sets.end(),
                                  [](const FeatureSet& set) { return set.name == "default"; });
  return (usual != feature_sets.end() ? *usual : feature_sets.front()).matrix;
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
  parts_.plans_ahead->BeforeGraph(graph, features);
  std::vector<AnswersAhead::NamedFeatures> sets;
  if (features != nullptr) sets.push_back({feature_set, features});
  parts_.answers_ahead->BeforeGraph(graph, sets, stop);
}

void ServingChanges::BeforeModel(const std::string& name, const std::shared_ptr<const Model>& model,
                                 const StopCheck& stop) const {
  parts_.plans_ahead->BeforeModel(name, model, stop);
  parts_.answers_ahead->BeforeModel(name, model, stop);
}

void ServingChanges::BeforeLoaded(const std::shared_ptr<const PreparedGraph>& graph,
                                  const std::vector<FeatureSet>& feature_sets, bool waited_for) const {
  parts_.plans_ahead->BeforeLoaded(graph, UsualFeatures(feature_sets), waited_for);
}

void ServingChanges::BeforeFollowingGraph(const std::shared_ptr<const PreparedGraph>& graph,
                                          const std::vector<FeatureSet>& feature_sets, const StopCheck& stop) const {
  parts_.plans_ahead->BeforeGraph(graph, UsualFeatures(feature_sets), stop);
  std::vector<AnswersAhead::NamedFeatures> sets;
  for (const FeatureSet& set : feature_sets) sets.push_back({set.name, set.matrix});
  parts_.answers_ahead->BeforeGraph(graph, sets, stop);
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

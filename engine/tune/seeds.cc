// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/seeds.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace vicinal {
namespace {

// Differences of this size each make a distance of 1: a factor of 4 in nodes, of 2 in degree and in its spread, 0.15 in
// shares of edges or gathers.
constexpr double kNodesOctaves = 2.0, kDegreeOctaves = 1.0, kShare = 0.15;

double Octaves(double a, double b) { return std::abs(std::log2(std::max(a, 1e-9) / std::max(b, 1e-9))); }

double Spread(const GraphProfile& profile) {
  return 1.0 + (profile.mean_degree > 0.0 ? profile.degree_deviation / profile.mean_degree : 0.0);
}

// The choice alone, as one that was not measured on the graph that gets it.
TuningEntry SeedOf(const TuningEntry& decided, const std::string& graph) {
  TuningEntry seed;
  seed.work = decided.work;
  seed.record.key = decided.work.key;
  seed.record.state = TuningState::kSeeded;
  const TuningCandidate& choice = *decided.record.choice();
  TuningCandidate candidate;
  candidate.setting = choice.setting;
  candidate.parameters = choice.parameters;
  candidate.whole_graph_only = choice.whole_graph_only;
  candidate.outcome = CandidateOutcome::kChosen;
  seed.record.candidates = {std::move(candidate)};
  seed.record.note = absl::StrCat("not measured yet; chosen on graph '", graph, "', whose profile is similar");
  return seed;
}

}  // namespace

double ProfileDistance(const GraphProfile& a, const GraphProfile& b) {
  const auto count = [](int64_t n) { return static_cast<double>(std::max<int64_t>(n, 1)); };
  double distance = Octaves(count(a.num_nodes), count(b.num_nodes)) / kNodesOctaves;
  const auto add = [&distance](double difference, double unit) {
    distance = std::max(distance, std::abs(difference) / unit);
  };
  add(Octaves(count(a.num_edges) / count(a.num_nodes), count(b.num_edges) / count(b.num_nodes)), kDegreeOctaves);
  add(Octaves(Spread(a), Spread(b)), kDegreeOctaves);
  add(a.after.inside_window - b.after.inside_window, kShare);
  for (size_t i = 0; i < kReuseWidths.size(); ++i) {
    add(a.after.reuse[i].l2 - b.after.reuse[i].l2, kShare);
    add(a.after.reuse[i].llc - b.after.reuse[i].llc, kShare);
  }
  for (size_t i = 0; i < a.after.tile_density.size(); ++i) {
    add(a.after.tile_density[i] - b.after.tile_density[i], kShare);
  }
  return distance;
}

void SeedLibrary::Learn(const std::string& name, const GraphProfile& profile, const std::vector<TuningEntry>& decided) {
  Learnt learnt{name, profile, {}};
  for (const TuningEntry& entry : decided) {
    if (entry.record.state == TuningState::kTuned && entry.record.choice() != nullptr) {
      learnt.choices.push_back(SeedOf(entry, name));
    }
  }
  if (learnt.choices.empty()) return;
  MutexLock lock(&mutex_);
  std::erase_if(learnt_, [&](const Learnt& other) { return other.name == name; });
  if (learnt_.size() == kMaxLearnt) learnt_.pop_front();
  learnt_.push_back(std::move(learnt));
}

std::vector<TuningEntry> SeedLibrary::For(const GraphProfile& profile) const {
  MutexLock lock(&mutex_);
  std::vector<std::pair<double, const Learnt*>> similar;
  for (const Learnt& learnt : learnt_) {
    const double distance = ProfileDistance(profile, learnt.profile);
    if (distance <= kSimilar) similar.emplace_back(distance, &learnt);
  }
  std::stable_sort(similar.begin(), similar.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TuningEntry> seeds;
  for (const auto& [distance, learnt] : similar) {
    for (const TuningEntry& choice : learnt->choices) {
      const bool known = std::any_of(seeds.begin(), seeds.end(),
                                     [&](const TuningEntry& seed) { return seed.work.key == choice.work.key; });
      if (!known) seeds.push_back(choice);
    }
  }
  return seeds;
}

}  // namespace vicinal

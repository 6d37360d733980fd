// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/settings_search.h"

#include <algorithm>
#include <array>
#include <set>

namespace vicinal {
namespace {

class Search {
 public:
  Search(const SettingSpace& space, const SettingModel& model, const RandomBits& random, const SearchLimits& limits)
      : space_(space), model_(model), random_(random), limits_(limits) {}

  SearchResult Run(const std::vector<KernelConfig>& seeds) {
    for (const KernelConfig& seed : seeds) Judge(seed);
    for (size_t i = seeds.size(); i < limits_.population; ++i) Judge(RandomSetting(space_, random_));
    result_.rounds = 1;
    while (result_.rounds < limits_.rounds && !SeenAll()) {
      ++result_.rounds;
      // The parents of a generation are fixed before its first child is judged.
      const std::vector<RankedSetting> parents = result_.best;
      for (size_t i = 0; i < limits_.population; ++i) {
        const KernelConfig child = parents.empty() ? RandomSetting(space_, random_) : Child(parents);
        Judge(seen_.contains(child.values) ? RandomSetting(space_, random_) : child);
      }
    }
    result_.modelled = static_cast<int64_t>(seen_.size());
    return std::move(result_);
  }

 private:
  bool SeenAll() const {
    size_t count = 1;
    for (const std::vector<int32_t>& values : space_) count *= values.size();
    return seen_.size() >= count;
  }

  KernelConfig Child(const std::vector<RankedSetting>& parents) {
    const KernelConfig& mother = parents[random_() % parents.size()].config;
    const KernelConfig& father = parents[random_() % parents.size()].config;
    const uint64_t sides = random_();
    KernelConfig child;
    for (size_t p = 0; p < space_.size(); ++p) child.values[p] = (sides >> p & 1 ? mother : father).values[p];
    return child;
  }

  void Judge(const KernelConfig& config) {
    if (!seen_.insert(config.values).second) return;
    const std::optional<double> latency = model_(config);
    if (!latency.has_value()) return;
    std::vector<RankedSetting>& best = result_.best;
    const auto at = std::upper_bound(best.begin(), best.end(), *latency,
                                     [](double value, const RankedSetting& other) { return value < other.latency; });
    best.insert(at, {config, *latency});
    if (best.size() > limits_.parents) best.pop_back();
  }

  const SettingSpace& space_;
  const SettingModel& model_;
  const RandomBits& random_;
  const SearchLimits& limits_;
  std::set<decltype(KernelConfig::values)> seen_;
  SearchResult result_;
};

}  // namespace

KernelConfig RandomSetting(const SettingSpace& space, const RandomBits& random) {
  KernelConfig config;
  for (size_t p = 0; p < space.size(); ++p) config.values[p] = space[p][random() % space[p].size()];
  return config;
}

SearchResult SearchSettings(const SettingSpace& space, const std::vector<KernelConfig>& seeds,
                            const SettingModel& model, const RandomBits& random, const SearchLimits& limits) {
  return Search(space, model, random, limits).Run(seeds);
}

}  // namespace vicinal

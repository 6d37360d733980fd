// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/estimate.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engine/tune/trial.h"
#include "engine/tune/work.h"

namespace vicinal {
namespace {

// A setting that may be measured.
struct Chosen {
  KernelSetting setting;
  double predicted_seconds = 0.0;
  bool first = true;  // of its kernel
};

template <class K>
bool MayRun(const EstimateInput& input, const K& kernel, const KernelConfig& config) {
  if (!kernel.deterministic(config)) return false;
  if (input.first_runs == nullptr) return true;
  const std::string name =
      ConfigurationName(kOperationName<typename K::Problem>, kernel.name(), NameParameters(kernel, config));
  return input.first_runs->WhyQuarantined(name).empty();
}

// Calls f(kernel, problem) for each kernel of the device that tuning may choose for the work.
template <class F>
void ForEachKernel(const EstimateInput& input, F&& f) {
  const WorkShape& shape = input.shape;
  WithProblem(*input.registry, input.key, shape.rows, shape.cols, shape.edges,
              [&](const auto& operation, const auto& problem) {
                for (const auto& entry : operation.kernels()) {
                  const auto& kernel = entry->kernel();
                  const bool fits = kernel.device() == input.device && !kernel.fallback_only();
                  if (fits && kernel.WhyUnsupported(problem).empty()) f(kernel, problem);
                }
              });
}

// The shape for a kernel's model, with what communities say about the kernel.
template <class K>
WorkShape ShapeFor(const EstimateInput& input, const K& kernel) {
  WorkShape shape = input.shape;
  if (input.findings == nullptr) return shape;
  const auto found = input.findings->lane_floats.find(std::string(kernel.name()));
  if (found != input.findings->lane_floats.end()) shape.lane_floats = found->second;
  return shape;
}

template <class K>
std::vector<KernelConfig> SearchKernel(const EstimateInput& input, const K& kernel, const typename K::Problem& problem,
                                       const SettingSpace& space, Estimate* estimate) {
  const WorkShape shape = ShapeFor(input, kernel);
  const SettingModel model = [&](const KernelConfig& config) -> std::optional<double> {
    return MayRun(input, kernel, config) ? kernel.ModelLatency(problem, config, shape) : std::nullopt;
  };
  std::vector<KernelConfig> seeds;
  if (input.findings != nullptr) {
    const auto found = input.findings->seeds.find(std::string(kernel.name()));
    if (found != input.findings->seeds.end()) seeds = found->second;
  }
  const SearchResult result = SearchSettings(space, seeds, model, input.random, input.limits);
  ++estimate->searched;
  estimate->modelled += result.modelled;
  estimate->rounds = std::max(estimate->rounds, result.rounds);
  std::vector<KernelConfig> best;
  for (size_t i = 0; i < std::min<size_t>(result.best.size(), 2); ++i) best.push_back(result.best[i].config);
  return best;
}

// The candidate with the least prediction; the first one if there are none.
template <class K>
std::vector<KernelConfig> BestCandidate(const EstimateInput& input, const K& kernel, const typename K::Problem& problem,
                                        Estimate* estimate) {
  std::vector<KernelConfig> best;
  double least = std::numeric_limits<double>::infinity();
  for (const KernelConfig& config : kernel.Candidates(problem)) {
    if (!MayRun(input, kernel, config)) continue;
    ++estimate->modelled;
    const double predicted = kernel.PredictSeconds(problem, config, input.shape).value_or(0.0);
    if (predicted >= least) continue;
    least = predicted;
    best = {config};
  }
  return best;
}

std::vector<KernelSetting> Select(std::vector<Chosen> chosen) {
  double least = std::numeric_limits<double>::infinity();
  for (const Chosen& one : chosen) {
    if (one.predicted_seconds > 0.0) least = std::min(least, one.predicted_seconds);
  }
  std::erase_if(chosen, [&](const Chosen& one) { return one.predicted_seconds > kPruneFactor * least; });
  std::stable_sort(chosen.begin(), chosen.end(), [](const Chosen& a, const Chosen& b) {
    return a.first != b.first ? a.first : a.predicted_seconds < b.predicted_seconds;
  });
  std::vector<KernelSetting> settings;
  for (size_t i = 0; i < std::min(chosen.size(), kMostEstimated); ++i) settings.push_back(chosen[i].setting);
  return settings;
}

}  // namespace

Estimate EstimateSettings(const EstimateInput& input) {
  Estimate estimate;
  std::vector<Chosen> chosen;
  ForEachKernel(input, [&]<class K>(const K& kernel, const typename K::Problem& problem) {
    if (!kernel.deterministic(KernelConfig())) return;
    const SettingSpace space = kernel.SearchSpace(problem);
    const std::vector<KernelConfig> best = space.empty() ? BestCandidate(input, kernel, problem, &estimate)
                                                         : SearchKernel(input, kernel, problem, space, &estimate);
    for (size_t i = 0; i < best.size(); ++i) {
      const double predicted = kernel.PredictSeconds(problem, best[i], input.shape).value_or(0.0);
      chosen.push_back({{std::string(kernel.name()), best[i]}, predicted, i == 0});
    }
  });
  estimate.settings = Select(std::move(chosen));
  return estimate;
}

std::vector<CommunityRun> RandomSettings(const EstimateInput& input, size_t count) {
  std::vector<CommunityRun> runs;
  ForEachKernel(input, [&]<class K>(const K& kernel, const typename K::Problem& problem) {
    const SettingSpace space = kernel.SearchSpace(problem);
    if (space.empty()) return;
    std::vector<KernelConfig> drawn;
    for (size_t draw = 0; draw < 4 * count && drawn.size() < count; ++draw) {
      const KernelConfig config = RandomSetting(space, input.random);
      const bool known = std::find(drawn.begin(), drawn.end(), config) != drawn.end();
      if (known || !MayRun(input, kernel, config)) continue;
      if (!kernel.ModelLatency(problem, config, input.shape).has_value()) continue;
      drawn.push_back(config);
      runs.push_back({{std::string(kernel.name()), config}, kernel.LaneFloats(problem, config), 0.0});
    }
  });
  return runs;
}

}  // namespace vicinal

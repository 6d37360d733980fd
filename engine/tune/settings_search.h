// SPDX-License-Identifier: Apache-2.0
// An evolutionary search among the settings of one kernel, judged by a model: the second half of GNNAdvisor's
// Estimating (Wang et al., OSDI'21, section 7.2). Generations of settings are made by crossover of the best ones; 10 to
// 15 of them are enough, says the paper. Nothing runs on a device. Randomness is given, so that a search can be
// repeated.
#ifndef VICINAL_ENGINE_TUNE_SETTINGS_SEARCH_H_
#define VICINAL_ENGINE_TUNE_SETTINGS_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/api/kernel_config.h"

namespace vicinal {

// Uniform 64-bit numbers.
using RandomBits = std::function<uint64_t()>;
// The values of each parameter, in the order of a KernelConfig; at least one each.
using SettingSpace = std::vector<std::vector<int32_t>>;
// Lower is better; nullopt: the setting is not allowed.
using SettingModel = std::function<std::optional<double>(const KernelConfig&)>;

struct SearchLimits {
  int rounds = 12;
  size_t population = 32;  // settings of a generation
  size_t parents = 8;      // the best ones so far, of which the next generation is made
};

struct RankedSetting {
  KernelConfig config;
  double latency = 0.0;
};

struct SearchResult {
  std::vector<RankedSetting> best;  // ascending, at most SearchLimits::parents, each once; empty: none is allowed
  int64_t modelled = 0;             // different settings that the model was asked about
  int rounds = 0;                   // generations; fewer than the limit if the whole space was seen
};

// A setting with a random value for each parameter.
KernelConfig RandomSetting(const SettingSpace& space, const RandomBits& random);

// The first generation consists of `seeds` and random settings. In each further one, every setting takes each parameter
// from one of two random parents; one that was seen before is replaced by a random setting. Seeds may lie outside of
// `space`.
SearchResult SearchSettings(const SettingSpace& space, const std::vector<KernelConfig>& seeds,
                            const SettingModel& model, const RandomBits& random, const SearchLimits& limits = {});

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_SETTINGS_SEARCH_H_

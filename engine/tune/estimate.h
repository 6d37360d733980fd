// SPDX-License-Identifier: Apache-2.0
// The tuning strategy `estimated`, without runs: which settings are worth a measurement, by the kernels' models.
// A kernel with a space of settings (Kernel::SearchSpace) is searched; of the others the candidate with the least
// predicted time is taken. All settings are such as the registry can run: of kernels that support the work, with
// deterministic bits, and not quarantined.
#ifndef VICINAL_ENGINE_TUNE_ESTIMATE_H_
#define VICINAL_ENGINE_TUNE_ESTIMATE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/api/tuning.h"
#include "engine/device/device.h"
#include "engine/kernels/registry.h"
#include "engine/kernels/work_shape.h"
#include "engine/tune/communities.h"
#include "engine/tune/first_runs.h"
#include "engine/tune/settings_search.h"

namespace vicinal {

// All must outlive the call.
struct EstimateInput {
  TuningKey key;
  WorkShape shape;  // of the whole graph
  DeviceKind device = DeviceKind::kCpu;
  const KernelRegistry* registry = nullptr;
  const FirstRuns* first_runs = nullptr;        // null: nothing is quarantined
  const CommunityFindings* findings = nullptr;  // null: searches start from random settings alone
  RandomBits random;
  SearchLimits limits;
};

struct Estimate {
  // The best of each kernel by predicted time, then the second settings of the searched ones; at most kMostEstimated.
  // Kernels that are predicted to take more than kPruneFactor (trial.h) times the best are left out.
  std::vector<KernelSetting> settings;
  int64_t modelled = 0;  // settings that models were asked about
  int rounds = 0;        // of the longest search
  int searched = 0;      // kernels with a space of settings
};
inline constexpr size_t kMostEstimated = 6;

Estimate EstimateSettings(const EstimateInput& input);

// `count` random settings of each kernel that is searched, each once, within the limits of its model; with the floats
// per lane of each. Empty: no kernel for this work has a space of settings. `input.findings` and `input.limits` are not
// used.
std::vector<CommunityRun> RandomSettings(const EstimateInput& input, size_t count);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_ESTIMATE_H_

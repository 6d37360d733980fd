// SPDX-License-Identifier: Apache-2.0
// What is known of kernel configurations on this device: whether one has ever ended well here, and whether it must not
// run any more, because it lost the device or the process. Whoever runs kernels asks, and tells of first runs.
#ifndef VICINAL_ENGINE_TUNE_FIRST_RUNS_H_
#define VICINAL_ENGINE_TUNE_FIRST_RUNS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api/tuning.h"
#include "engine/base/status.h"

namespace vicinal {

// The name of a configuration: operation, kernel and parameters, in one line. The same in every process.
std::string ConfigurationName(std::string_view operation, std::string_view kernel,
                              const std::vector<NamedParameter>& parameters);
std::string ConfigurationName(const TuningKey& key, const TuningCandidate& candidate);

// Thread-safe.
class FirstRuns {
 public:
  virtual ~FirstRuns() = default;

  // Why the configuration must not run, in words; empty: it may.
  virtual std::string WhyQuarantined(const std::string& configuration) const = 0;
  // Rises with each quarantine: what was chosen at an older revision must be chosen again. Cheap.
  virtual int64_t revision() const = 0;
  // True: it has ended well on this device, and its runs need not be told.
  virtual bool HasEndedWell(const std::string& configuration) const = 0;
  // Before a run that is waited for: no other step of its plan overlaps it; or before its code is loaded. The first one
  // leaves a mark that survives the end of the process, and waits for the disk; later ones cost a look-up.
  virtual void Begin(const std::string& configuration) = 0;
  // After that run. OK: it ended well. INTERNAL, an error of the device: the configuration is quarantined. Any other
  // status says nothing about it.
  virtual void End(const std::string& configuration, const Status& run) = 0;
  // A run of all of these together ended with an error of the device, and nobody knows whose: none has ended well any
  // more, so that the next process runs each alone.
  virtual void Doubt(const std::vector<std::string>& configurations) = 0;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_FIRST_RUNS_H_

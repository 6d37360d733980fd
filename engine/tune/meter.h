// SPDX-License-Identifier: Apache-2.0
// Times a run, and says whether something else disturbed it. Injected, so that tests tune with times of their own.
#ifndef VICINAL_ENGINE_TUNE_METER_H_
#define VICINAL_ENGINE_TUNE_METER_H_

#include <functional>

#include "engine/api/tuning.h"
#include "engine/base/status.h"

namespace vicinal {

struct RunSample {
  double seconds = 0.0;
  bool disturbed = false;
};

// Used by one thread at a time.
class RunMeter {
 public:
  virtual ~RunMeter() = default;
  // Calls `run`, which runs `setting` on the work of `key` and waits for it, once, and returns its time. Errors are
  // those of `run`.
  virtual StatusOr<RunSample> Measure(const TuningKey& key, const KernelSetting& setting,
                                      const std::function<Status()>& run) = 0;

  // Wall time. A run is disturbed when the calling thread waited for a processor for a while (Linux's schedstat), or
  // when it stood still for long while the system took a processor away from some thread of this process: involuntary
  // context switches (getrusage) together with more wall time than processor time. Either of these two alone is normal:
  // threads of a pool wait for each other, and a switch may cost microseconds of a run of milliseconds.
  static RunMeter& Real();
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_METER_H_

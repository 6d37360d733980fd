// SPDX-License-Identifier: Apache-2.0
// Times a run and detects disturbances by other programs. Injected, so that tests can supply times.
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
  // Calls `run` once and returns its time. `run` runs `setting` on the work of `key` and waits for it. Returns errors
  // of `run`.
  virtual StatusOr<RunSample> Measure(const TuningKey& key, const KernelSetting& setting,
                                      const std::function<Status()>& run) = 0;

  // Wall time. A run is disturbed if the calling thread waited for a processor for a while (Linux's schedstat), or if
  // it was idle for long while the system preempted some thread of this process: involuntary context switches
  // (getrusage) together with more wall time than processor time. Either of these two alone is normal: threads of a
  // pool wait for each other, and a context switch may cost microseconds of a run of milliseconds.
  static RunMeter& Real();
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_METER_H_

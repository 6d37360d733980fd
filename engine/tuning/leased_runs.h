// SPDX-License-Identifier: Apache-2.0
// Runs candidates of trials, each run in its own lease of the executor's thread, which yields to requests, and counts
// what that costs. Used by one thread.
#ifndef VICINAL_ENGINE_TUNING_LEASED_RUNS_H_
#define VICINAL_ENGINE_TUNING_LEASED_RUNS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/api/tuning.h"
#include "engine/base/status.h"
#include "engine/execute/executor.h"
#include "engine/kernels/expression_form.h"
#include "engine/kernels/kernel_preparation.h"
#include "engine/tune/meter.h"
#include "engine/tune/trial.h"
#include "engine/tuning/tuning_job.h"

namespace vicinal {

// How often a wait for a compiler asks whether to go on, and when it gives up: a compiler is stopped after a minute
// (RunTimeCompilation::wall_time), but the programs of new plans may be compiled before.
inline constexpr std::chrono::milliseconds kCompilationLook(20);
inline constexpr double kLongestCompilation = 300.0;

class LeasedRuns {
 public:
  // All must outlive the object. `stopping` is called before each run.
  LeasedRuns(const TuningTools& tools, Executor* executor, const TuningJob& job, const std::function<bool()>& stopping)
      : tools_(tools), executor_(*executor), job_(job), stopping_(stopping) {}

  struct Sampled {
    std::optional<double> seconds;  // nullopt: requests arrived during every attempt
    int64_t dropped = 0;            // attempts that do not count
  };
  // Time of one run of a candidate on the matrices of `turn`. If other programs disturbed all attempts, the shortest
  // counts: machines that are always busy must be tuned, too, and Contest tolerates noise. TuningStopped,
  // TunedGraphGone, and errors of the device.
  StatusOr<Sampled> Sample(const Trial& trial, int candidate, int64_t turn);

  // Carries out all of `preparation`: loads on this thread, without a lease, and each run in a lease of its own. If the
  // process ends during a load or a first run of what was loaded, or the device fails, that counts against
  // `configuration` as a first run does; that they end well says nothing. Errors as of Sample, and those of the parts;
  // after one, `preparation` cannot go on.
  Status Prepare(const std::string& configuration, KernelPreparation* preparation);

  // Waits on this thread, without a lease, until the code of a candidate was compiled or it is known that there is
  // none. TuningStopped and TunedGraphGone within kCompilationLook; UNAVAILABLE after kLongestCompilation.
  Status AwaitCode(const ExpressionCompilation& compilation) const;

  double used_seconds() const { return used_; }  // of the executor's thread
  int64_t samples() const { return samples_; }   // attempts, dropped ones included
  int64_t dropped() const { return dropped_; }
  int num_threads() const { return executor_.num_threads(); }

 private:
  // One measured run.
  struct Tried {
    RunSample sample;
    double used_seconds = 0.0;  // of the executor's thread, renewing included
    bool stopped = false;       // a request came
  };

  Status LoadPart(const std::string& configuration, KernelPreparation* preparation);
  Status RunPart(const std::string& configuration, bool first, KernelPreparation* preparation);
  StatusOr<Tried> RunWatched(const Trial& trial, int candidate, int64_t turn);
  StatusOr<Tried> RunInLease(const Trial& trial, int candidate, int64_t turn);
  StatusOr<Tried> MeasureOne(const Trial& trial, int candidate, int64_t turn, DeviceContext& context,
                             const Lease& lease);

  const TuningTools& tools_;
  Executor& executor_;
  const TuningJob& job_;
  const std::function<bool()>& stopping_;
  double used_ = 0.0;
  int64_t samples_ = 0, dropped_ = 0;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_LEASED_RUNS_H_

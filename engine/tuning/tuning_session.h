// SPDX-License-Identifier: Apache-2.0
// Tunes one kind of work on a graph: builds adjacency and matrices on the caller's thread, runs candidates in rounds
// (LeasedRuns), and picks the winner (Contest). Which candidates run depends on the strategy: with kMeasured all that
// are predicted to be promising, with kEstimated the few that models rank best (tune/estimate.h), for a few rounds.
//
// A job that asks for no strategy is estimated although measuring is the rule,
// - if it is too large: a run of the default is predicted to take more than kTooLargeRuns times kMaxRunSeconds, so that
//   a measured run would see less than a tenth of the edges;
// - if the device is too busy: of all measured runs more than half were disturbed, and when the budget ended, the
//   contest was not decided.
#ifndef VICINAL_ENGINE_TUNING_TUNING_SESSION_H_
#define VICINAL_ENGINE_TUNING_TUNING_SESSION_H_

#include <cstdint>
#include <functional>

#include "engine/api/tuning.h"
#include "engine/base/status.h"
#include "engine/execute/executor.h"
#include "engine/tuning/tuning_job.h"

namespace vicinal {

// Approximate maximum duration of a run; larger graphs are measured on a part of their rows.
inline constexpr double kMaxRunSeconds = 0.05;
inline constexpr double kTooLargeRuns = 10.0;

struct TuningOutcome {
  // Complete, in state kTuned or kFailed. An error (TuningStopped, TunedGraphGone) if there is nothing to record.
  StatusOr<TuningRecord> record;
  int64_t samples = 0, dropped = 0;
};

// Measures and decides; does not change the graph's table. Calls `stopping` before each run. Throws std::bad_alloc on
// the caller's thread only.
TuningOutcome TuneKey(const TuningTools& tools, Executor* executor, const TuningJob& job,
                      const std::function<bool()>& stopping);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_TUNING_SESSION_H_

// SPDX-License-Identifier: Apache-2.0
// Measures one kind of work on a graph: builds adjacency and matrices on the caller's thread, runs the candidates in
// rounds (each run in its own lease of the executor's thread, which yields to requests), and picks the winner
// (Contest).
#ifndef VICINAL_ENGINE_TUNING_TUNING_SESSION_H_
#define VICINAL_ENGINE_TUNING_TUNING_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/api/tuning.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/execute/executor.h"
#include "engine/kernels/registry.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/tune/first_runs.h"
#include "engine/tune/meter.h"

namespace vicinal {

// Approximate maximum duration of a run; larger graphs are measured on a part of their rows.
inline constexpr double kMaxRunSeconds = 0.05;

// All must outlive their users.
struct TuningTools {
  Device* device = nullptr;
  const KernelRegistry* registry = nullptr;
  MemoryBudget* budget = nullptr;
  const Clock* clock = nullptr;
  RunMeter* meter = nullptr;
  FirstRuns* first_runs = nullptr;  // hears of every run; null: nobody does
  // True if `graph` is still the serving version.
  std::function<bool(const PreparedGraph& graph)> is_current;
};

struct TuningJob {
  std::shared_ptr<const PreparedGraph> graph;
  TuningWork work;
  Nanoseconds budget{0};
  bool ordered = false;  // by a client, with a strict budget; otherwise long runs may exceed it (kRoundsAtLeast)
};

struct TuningOutcome {
  // Complete, in state kTuned or kFailed. An error (TuningStopped, TunedGraphGone) if there is nothing to record.
  StatusOr<TuningRecord> record;
  int64_t samples = 0, dropped = 0;
};

// Measures and decides; does not change the graph's table. Calls `stopping` before each run. Throws std::bad_alloc on
// the caller's thread only.
TuningOutcome TuneKey(const TuningTools& tools, Executor* executor, const TuningJob& job,
                      const std::function<bool()>& stopping);

// UNAVAILABLE (DRAINING): the service stops.
Status TuningStopped();
// CANCELLED: the graph no longer serves.
Status TunedGraphGone();
// RESOURCE_EXHAUSTED (OUT_OF_MEMORY).
Status NoMemoryToTune();

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_TUNING_SESSION_H_

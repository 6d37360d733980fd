// SPDX-License-Identifier: Apache-2.0
// The measuring of one kind of work on a graph: adjacency and matrices are made (on the caller's thread), candidates
// run in rounds (each run on the executor's thread, in a lease of its own that gives way to requests), the contest
// judges.
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
#include "engine/tune/meter.h"

namespace vicinal {

// Larger graphs are measured on a part of their rows: a run takes about so long at most.
inline constexpr double kMaxRunSeconds = 0.05;

// All must outlive whoever uses them.
struct TuningTools {
  Device* device = nullptr;
  const KernelRegistry* registry = nullptr;
  MemoryBudget* budget = nullptr;
  const Clock* clock = nullptr;
  RunMeter* meter = nullptr;
  // Whether a graph is still the version that serves.
  std::function<bool(const PreparedGraph& graph)> is_current;
};

struct TuningJob {
  std::shared_ptr<const PreparedGraph> graph;
  TuningWork work;
  Nanoseconds budget{0};
  bool ordered = false;  // by somebody, who said the budget; else long runs get rounds enough, whatever it is
};

struct TuningOutcome {
  // Complete; its state is kTuned or kFailed. A status when nothing is to be written: TuningStopped, TunedGraphGone.
  StatusOr<TuningRecord> record;
  int64_t samples = 0, dropped = 0;
};

// Measures and judges; nothing is written to the graph's table. `stopping` is asked before each run. Throws
// std::bad_alloc on the caller's thread only.
TuningOutcome TuneKey(const TuningTools& tools, Executor* executor, const TuningJob& job,
                      const std::function<bool()>& stopping);

// UNAVAILABLE (DRAINING): the service stops.
Status TuningStopped();
// CANCELLED: the graph serves no more.
Status TunedGraphGone();
// RESOURCE_EXHAUSTED (OUT_OF_MEMORY).
Status NoMemoryToTune();

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_TUNING_SESSION_H_

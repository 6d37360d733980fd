// SPDX-License-Identifier: Apache-2.0
// One kind of work on one graph to be tuned, and what that takes.
#ifndef VICINAL_ENGINE_TUNING_TUNING_JOB_H_
#define VICINAL_ENGINE_TUNING_TUNING_JOB_H_

#include <functional>
#include <memory>
#include <optional>

#include "engine/api/tuning.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/kernels/registry.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/tune/first_runs.h"
#include "engine/tune/meter.h"
#include "engine/tune/settings_search.h"

namespace vicinal {

class CommunityLibrary;

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
  // Of jobs that ask for none.
  TuningStrategy strategy = TuningStrategy::kMeasured;
  // For estimates. Used by the tuning thread only.
  CommunityLibrary* communities = nullptr;
  RandomBits random;  // each estimate begins with a copy of it, so that equal works are searched alike
};

struct TuningJob {
  std::shared_ptr<const PreparedGraph> graph;
  TuningWork work;
  Nanoseconds budget{0};
  bool ordered = false;  // by a client, with a strict budget; otherwise long runs may exceed it (kRoundsAtLeast)
  // Exactly this one. nullopt: TuningTools::strategy, and estimates of what is too large or too busy to be measured.
  std::optional<TuningStrategy> strategy = std::nullopt;
};

// UNAVAILABLE (DRAINING): the service stops.
Status TuningStopped();
// CANCELLED: the graph no longer serves.
Status TunedGraphGone();
// RESOURCE_EXHAUSTED (OUT_OF_MEMORY).
Status NoMemoryToTune();

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_TUNING_JOB_H_

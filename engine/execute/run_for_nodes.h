// SPDX-License-Identifier: Apache-2.0
// Runs a plan for the nodes of a request: over their receptive field where that is cheaper than the full graph, decided
// anew for each request by the cost of what is found. The bits of the answer are the same either way.
#ifndef VICINAL_ENGINE_EXECUTE_RUN_FOR_NODES_H_
#define VICINAL_ENGINE_EXECUTE_RUN_FOR_NODES_H_

#include <cstdint>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/plan/plan.h"

namespace vicinal {

// Which rows of a plan's result, in the client's ids.
struct WantedRows {
  const std::vector<int64_t>* ids = nullptr;  // in range, any order, may repeat; null: all rows
  const Permutation* permutation = nullptr;   // from the client's ids to the result's rows
  ReceptiveField receptive_field = ReceptiveField::kAuto;
};

// What a run needs beside the plan.
struct RunParts {
  DeviceContext* context = nullptr;
  const FeatureMatrix* features = nullptr;
  ReceptiveFieldWorkspace* workspace = nullptr;
  const StopCheck* stop = nullptr;
  StatsSink* stats = nullptr;
  const Clock* clock = nullptr;
};

struct ComputedRows {
  ConstMatrixView rows;          // in the plan's scratch
  bool receptive_field = false;  // rows are the field's: ReceptiveFieldFinder::RowOf says which is whose
  int64_t computed_nodes = 0;    // whose features were read
};

// FAILED_PRECONDITION (NO_RECEPTIVE_FIELD): kAlways, but the plan has none. Otherwise as Plan::Run, and with kAlways as
// the account of the workspace; with kAuto the full graph is computed where a field's memory is refused. Reports the
// search as phase "receptive_field". One caller at a time.
StatusOr<ComputedRows> RunForNodes(Plan& plan, const WantedRows& wanted, const RunParts& parts);

// The rows wanted of what was computed, [rows, width] on the host. Stops as Plan::Run does.
StatusOr<std::vector<float>> GatherWanted(const ComputedRows& computed, const WantedRows& wanted,
                                          const RunParts& parts);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_RUN_FOR_NODES_H_

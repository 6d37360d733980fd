// SPDX-License-Identifier: Apache-2.0
// Runs a plan for the nodes of a request: over their receptive field if that is cheaper than the full graph. Each
// request decides for itself, by the predicted cost of its field. Both ways give the same bits.
#ifndef VICINAL_ENGINE_EXECUTE_RUN_FOR_NODES_H_
#define VICINAL_ENGINE_EXECUTE_RUN_FOR_NODES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/device/class_rows.h"
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
  const ReplacedRows* replaced = nullptr;  // in place of rows of `features`; null: none
  // For the matrix that a run over the full graph then needs.
  Device* device = nullptr;
  MemoryBudget* budget = nullptr;
  const EdgeMatrix* edges = nullptr;  // an edge feature set; null: none
};

struct ComputedRows {
  ConstMatrixView rows;          // in the plan's scratch
  bool receptive_field = false;  // rows are the field's; ReceptiveFieldFinder::RowOf maps nodes to rows
  int64_t computed_nodes = 0;    // whose features were read
  double share = 1.0;            // of the predicted cost of the full graph
  // What a run over the full graph read, if rows are replaced.
  std::shared_ptr<const FeatureMatrix> features = nullptr;
};

// FAILED_PRECONDITION (NO_RECEPTIVE_FIELD): kAlways, but the plan has no receptive field. If the workspace does not fit
// the memory budget, kAlways returns the budget's error and kAuto computes the full graph. Other errors: Plan::Run's,
// and the budget's where a run over the full graph copies features to replace rows. Reports the search as phase
// "receptive_field". One caller at a time.
StatusOr<ComputedRows> RunForNodes(Plan& plan, const WantedRows& wanted, const RunParts& parts);

// Rows of the result that hold the wanted ones, in their order.
std::vector<int64_t> PlacesOf(const ComputedRows& computed, const WantedRows& wanted, const RunParts& parts);

// Copies the wanted rows to the host, [rows, width], in the order of `wanted.ids`. Checks `parts.stop` between pieces.
StatusOr<std::vector<float>> GatherWanted(const ComputedRows& computed, const WantedRows& wanted,
                                          const RunParts& parts);

// What ranks the rows on the context's device; null: nothing does, or they are so few that whoever gets them is faster.
ClassRanker* RankerFor(const ComputedRows& computed, const WantedRows& wanted, const WantedClasses& classes,
                       DeviceContext& context);

// The wanted rows, ranked on the device, into `ranked` and, if the logits are wanted, `values`. Checks `parts.stop`
// between pieces.
Status RankWanted(ClassRanker& ranker, const ComputedRows& computed, const WantedRows& wanted,
                  const WantedClasses& classes, bool multi_label, const RunParts& parts, RankedRows* ranked,
                  std::vector<float>* values);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_RUN_FOR_NODES_H_

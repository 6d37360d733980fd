// SPDX-License-Identifier: Apache-2.0
// The data of a finished plan.
#ifndef VICINAL_ENGINE_PLAN_BUILD_BUILT_PLAN_H_
#define VICINAL_ENGINE_PLAN_BUILD_BUILT_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/build/plan_allocator.h"
#include "engine/plan/plan.h"
#include "engine/plan/receptive_field/receptive_field_program.h"
#include "engine/plan/run/launch.h"
#include "engine/plan/run/tiled_run.h"

namespace vicinal::internal {

// Locations in launches' arguments that are set to the features of each run.
struct FeatureSlots {
  std::vector<ConstMatrixView*> dense;
  std::vector<CsrView*> sparse;
  std::vector<int64_t*> nnz;
};

// The same for features of edges, of plans with PlanRequest::edge_set_cols.
struct EdgeSlot {
  EdgeFeaturesView* view = nullptr;
  bool means = false;  // its loops have the means
};

struct BuiltPlan {
  PlanRequest request;  // keeps the model and the graph alive
  std::vector<std::unique_ptr<Launch>> launches;
  std::vector<LaunchTiles> tiles;  // in order; empty: every launch runs over all rows
  std::vector<std::string> decisions;
  ReceptiveFieldProgram field;
  DeviceKind device = DeviceKind::kCpu;
  // Gathers features and per-node numbers for receptive fields, on a device with memory of its own; otherwise null.
  const RegisteredKernel<RowwiseKernel>* gather_rows = nullptr;
  ConstMatrixView result;
  FeatureSlots features;
  std::vector<EdgeSlot> edges;
  PlanMemory memory;
  int64_t whole_arena_bytes = 0, tiled_arena_bytes = 0;  // as Plan::whole_scratch_bytes and tiled_scratch_bytes
  int64_t step_bytes = 0;                                // in host memory: the launches and their descriptions
  int64_t reduction_order = 0;                           // as Plan::reduction_order
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_BUILT_PLAN_H_

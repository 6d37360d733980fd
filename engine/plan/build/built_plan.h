// SPDX-License-Identifier: Apache-2.0
// All that a plan needs to run.
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

namespace vicinal::internal {

// Places in launches' arguments that are set to the features of each run.
struct FeatureSlots {
  std::vector<ConstMatrixView*> dense;
  std::vector<CsrView*> sparse;
  std::vector<int64_t*> nnz;
};

struct BuiltPlan {
  PlanRequest request;  // holds the model and the graph
  std::vector<std::unique_ptr<Launch>> launches;
  std::vector<std::string> decisions;
  ReceptiveFieldProgram field;
  DeviceKind device = DeviceKind::kCpu;
  // Takes rows of features and numbers for fields, where the device has memory of its own; else null.
  const RegisteredKernel<RowwiseKernel>* gather_rows = nullptr;
  ConstMatrixView result;
  FeatureSlots features;
  PlanMemory memory;
  int64_t step_bytes = 0;       // of the launches and what is told of them, in host memory
  int64_t reduction_order = 0;  // as Plan::reduction_order
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_BUILT_PLAN_H_

// SPDX-License-Identifier: Apache-2.0
// What Explain tells about a node: a formula with its shapes, its locality, and what it moves and computes by a simple
// model (every operand once from memory, gathered rows once per edge).
#ifndef VICINAL_ENGINE_PLAN_BUILD_DESCRIBE_H_
#define VICINAL_ENGINE_PLAN_BUILD_DESCRIBE_H_

#include "engine/plan/plan.h"
#include "engine/plan/rewrite/program.h"

namespace vicinal::internal {

struct NodeSizes {
  int64_t nodes = 0;   // N
  int64_t graphs = 1;  // G
  int64_t edges = 0;   // of the node's adjacency
  bool weighted = false;
  int64_t input_nnz = 0;  // of a sparse input
};

// Everything but operation, kernel, refusals and times.
PlanStepInfo Describe(const Program& program, const Node& node, const NodeSizes& sizes);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_DESCRIBE_H_

// SPDX-License-Identifier: Apache-2.0
// The data for runs of a plan over a receptive field: for each launch its depth, its adjacency, and the cost of a row
// and an edge.
#ifndef VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_PROGRAM_H_
#define VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/receptive_field/receptive_field.h"
#include "engine/plan/rewrite/program.h"
#include "engine/plan/run/launch.h"

namespace vicinal::internal {

// The number of neighbourhood steps between rows and the output's, on the longest path.
struct Depths {
  std::vector<int> nodes;  // of each node's result
  int input = 0;           // of the model's input
  int deepest = 0;
};
Depths DepthsOf(const Program& program);

// Index of a launch's adjacency and its depth.
struct FieldStep {
  int depth = 0;
  int adjacency = -1;  // -1: none
  // Per-node vectors that it reads, indices into ReceptiveFieldProgram::vectors; -1: none.
  int row_scale = -1;
  int inner_row_scale = -1;  // of AggregateArgs::row_epilogue
  int src_scale = -1;
};

// A vector with one number per node of the full graph, and the deepest level that reads it.
struct NodeVector {
  const float* values = nullptr;
  int depth = 0;
};

struct ReceptiveFieldProgram {
  ReceptiveFieldShape shape;
  std::vector<FieldStep> steps;  // one per launch
  // The launches' adjacencies in memory of the plan's device, in the order of shape.adjacencies.
  std::vector<CsrView> adjacencies;
  int input_depth = 0;
  std::vector<NodeVector> vectors;
  bool edge_features = false;  // whether a launch reads features of edges, which it finds by the rows' nodes
};

// `launches` are those of `program`'s nodes, with their arguments bound to the full graph. `device` runs them.
// `refusal`: why the plan's device or graph supports no fields; empty: it does.
ReceptiveFieldProgram MakeReceptiveFieldProgram(const Program& program,
                                                const std::vector<std::unique_ptr<Launch>>& launches,
                                                const PlanRequest& request, DeviceKind device, std::string refusal);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_PROGRAM_H_

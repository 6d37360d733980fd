// SPDX-License-Identifier: Apache-2.0
// The description of a step in Explain: a formula with its shapes, its locality, and bytes and operations by a simple
// model (every operand read once from memory, gathered rows once per edge).
#ifndef VICINAL_ENGINE_PLAN_NODE_KINDS_STEP_DESCRIPTION_H_
#define VICINAL_ENGINE_PLAN_NODE_KINDS_STEP_DESCRIPTION_H_

#include <cstdint>
#include <string>

#include "engine/plan/plan.h"
#include "engine/plan/rewrite/program.h"

namespace vicinal::internal {

struct StepSizes {
  int64_t nodes = 0;   // N
  int64_t graphs = 1;  // G
  int64_t edges = 0;   // of the node's adjacency
  bool weighted = false;
  int64_t input_nnz = 0;  // of a sparse input
};

// Everything but operation, kernel, refusals and times.
PlanStepInfo Describe(const Program& program, const Node& node, const StepSizes& sizes);

// The output of NodeTraits::describe.
class StepDescription {
 public:
  static constexpr int64_t kFloatBytes = sizeof(float);
  static constexpr int64_t kIndexBytes = sizeof(int32_t);
  static constexpr int64_t kOffsetBytes = sizeof(int64_t);

  // All must outlive it.
  StepDescription(const Program& program, const Node& node, const StepSizes& sizes)
      : program_(program), node_(node), sizes_(sizes) {}

  const Node& node() const { return node_; }
  const StepSizes& sizes() const { return sizes_; }
  int64_t WidthOf(ValueId value) const { return program_.values[value].width; }
  int64_t out_width() const { return WidthOf(node_.output); }
  int64_t Elements(ValueId value) const;
  bool IsSparseInput(ValueId value) const { return value == kInputValue && program_.sparse_input; }
  std::string Shape(ValueId value) const;  // "sparse x [2708, 1433]"
  std::string AdjacencyShape() const;      // "A[2708, 2708] with 13264 edges"
  int64_t AdjacencyBytes() const;
  int64_t InputBytes() const;  // of the model's input

  std::string* formula() { return &formula_; }
  // Adds `bytes` that are read, and the output's bytes.
  void SetCost(int64_t bytes, int64_t operations);
  // Adds the cost of `epilogue` on `elements` results.
  void AddEpilogue(const EpilogueSpec& epilogue, int64_t elements);
  PlanStepInfo Finish();

 private:
  int64_t Rows(const Value& value) const { return value.per_graph ? sizes_.graphs : sizes_.nodes; }

  const Program& program_;
  const Node& node_;
  const StepSizes& sizes_;
  std::string formula_;
  PlanStepInfo info_;
};

// NodeTraits::describe for "<name> of <input>", with five operations per element.
void DescribeRowwise(StepDescription* step);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_NODE_KINDS_STEP_DESCRIPTION_H_

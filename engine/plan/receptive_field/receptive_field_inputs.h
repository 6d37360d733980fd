// SPDX-License-Identifier: Apache-2.0
// The data of a field that a plan's launches read besides the plan's own memory: its edges, its nodes' features,
// per-node numbers. On the CPU these are the finder's memory and copies of rows. A device with memory of its own
// receives the edges and nodes in one transfer, and gathers the rest from the full graph's data.
#ifndef VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_INPUTS_H_
#define VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_INPUTS_H_

#include <cstdint>
#include <vector>

#include "engine/plan/receptive_field/receptive_field_program.h"
#include "engine/plan/receptive_field/replaced_rows.h"

namespace vicinal::internal {

// In memory of the plan's device; valid until the next field.
struct ReceptiveFieldInputs {
  struct Edges {
    const int64_t* row_ptr = nullptr;
    const int32_t* col = nullptr;
    const float* value = nullptr;
  };

  ConstMatrixView dense;                 // features, or
  CsrView sparse;                        // in compressed rows, with
  const int64_t* sparse_ends = nullptr;  // their row_ptr in host memory
  std::vector<Edges> adjacencies;        // as ReceptiveFieldProgram::adjacencies
  std::vector<const float*> vectors;     // as ReceptiveFieldProgram::vectors
  const NodeId* nodes = nullptr;         // of all rows, if ReceptiveFieldProgram::edge_features
};

// Writes the row ends of the first `rows` nodes to work->row_ptr; `full` [N + 1] are those of all nodes, on the host.
Status GatherRowEnds(const int64_t* full, int64_t rows, ReceptiveFieldWorkspace* work);

// Both fill `inputs` for the field that `work->finder` found last. They allocate nothing once `work` and `inputs` are
// large enough. Errors of `work`'s account and of the device.
// `replaced` (null: none) are read in place of rows of `features`.
Status GatherInputs(const ReceptiveFieldProgram& field, const FeatureMatrix& features, const ReplacedRows* replaced,
                    ThreadPool* pool, ReceptiveFieldWorkspace* work, ReceptiveFieldInputs* inputs);
// `gather`: the device's kernel for RowwiseKind::kGatherRows. Only launches.
Status SendInputs(const ReceptiveFieldProgram& field, const FeatureMatrix& features,
                  const RegisteredKernel<RowwiseKernel>& gather, DeviceContext& context, ReceptiveFieldWorkspace* work,
                  ReceptiveFieldInputs* inputs);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_INPUTS_H_

// SPDX-License-Identifier: Apache-2.0
// The oracle: runs a model's steps in double precision, in the order PyTorch Geometric would, over the edges as sent,
// with maps and plain loops. Slow and obvious on purpose; shares no code with plans, kernels or graph preparation.
// Tests hold everything against it.
#ifndef VICINAL_TESTS_ENGINE_PLAN_INTERPRETER_INTERPRETER_H_
#define VICINAL_TESTS_ENGINE_PLAN_INTERPRETER_INTERPRETER_H_

#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/edge_list.h"
#include "engine/model/model.h"

namespace vicinal {

struct InterpreterInput {
  const EdgeList* edges = nullptr;         // client's ids
  const std::vector<double>* x = nullptr;  // [N, F], dense
  std::vector<int64_t> segments;           // batch of small graphs: [G + 1]; empty: one graph
  std::vector<float> edge_attr = {};       // [E, A], in the order of `edges`; empty: none
};

// The value `output` as [rows, width], row-major. FAILED_PRECONDITION when the model needs edge weights and there are
// none.
StatusOr<std::vector<double>> Interpret(const Model& model, const InterpreterInput& input, ValueId output);

}  // namespace vicinal

#endif  // VICINAL_TESTS_ENGINE_PLAN_INTERPRETER_INTERPRETER_H_

// SPDX-License-Identifier: Apache-2.0
// An EdgeProgram in double, one edge and one number after the other: the oracle of expressions.
#ifndef VICINAL_TESTS_ENGINE_PLAN_INTERPRETER_EDGE_PROGRAM_ORACLE_H_
#define VICINAL_TESTS_ENGINE_PLAN_INTERPRETER_EDGE_PROGRAM_ORACLE_H_

#include <functional>
#include <vector>

#include "engine/base/edge_program.h"
#include "engine/model/step.h"

namespace vicinal {

// What an edge reads. Of a program over rows: `targets` alone.
struct EdgeInputs {
  std::vector<const double*> sources, targets;  // a row of each matrix
  std::vector<double> features;
  double weight = 1.0;
};

// All values of an edge.
std::vector<std::vector<double>> ValuesOfEdge(const ExpressionStep& step, const EdgeInputs& edge,
                                              const std::function<double(const Activation&, double)>& apply);

// One row of a result, from the values of all edges of a target.
std::vector<double> ReduceEdges(const EdgeProgram& program, const EdgeResult& result,
                                const std::vector<std::vector<std::vector<double>>>& edges);

}  // namespace vicinal

#endif  // VICINAL_TESTS_ENGINE_PLAN_INTERPRETER_EDGE_PROGRAM_ORACLE_H_

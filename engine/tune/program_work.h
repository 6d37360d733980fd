// SPDX-License-Identifier: Apache-2.0
// Message functions as a kind of work. A key names a program; the program itself stands in TuningWork while a model of
// the process has it. Weights are no part of either: a trial makes its own.
#ifndef VICINAL_ENGINE_TUNE_PROGRAM_WORK_H_
#define VICINAL_ENGINE_TUNE_PROGRAM_WORK_H_

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/api/tuning.h"
#include "engine/base/edge_program.h"
#include "engine/device/device.h"
#include "engine/kernels/expression.h"

namespace vicinal {

inline bool IsExpression(const TuningKey& key) { return key.operation == "expression"; }

// What TuningKey::kind may be of expressions: the reduction, by EdgeReduce, or several different ones.
inline constexpr std::string_view kProgramKinds[] = {"sum", "mean", "max", "min", "var", "std", "softmax", "several"};

// The key of a program over edges. TuningKey::program is a hash of all its values and reductions, the same in every
// process. REQUIRES: program.over_edges.
TuningKey KeyOf(const EdgeProgram& program, EdgeWeights weights);
// 16 hex digits.
bool IsProgramName(std::string_view name);

// What a program reads.
struct ProgramSizes {
  struct Parameter {
    int64_t rows = 0, cols = 0;  // a row: 1 and its columns
    bool is_matrix = false;      // of products
  };
  // Columns, up to the last that is read, at least one of each matrix there is; 0: no such matrix.
  std::array<int64_t, kMaxExpressionInputs> sources = {}, targets = {};
  std::vector<Parameter> parameters;  // by index
};
ProgramSizes SizesOf(const EdgeProgram& program);

// On an adjacency of that size.
ExpressionProblem ExpressionProblemOf(const EdgeProgram& program, int64_t rows, int64_t cols, int64_t edges);

// About the seconds of a run, by its operations and the columns that it gathers: for the choice between all edges and a
// part of them, not for that between settings. `num_threads` of a CPU; 0: on a GPU, one of the slower ones.
double RoughProgramSeconds(const EdgeProgram& program, int64_t edges, int num_threads);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_PROGRAM_WORK_H_

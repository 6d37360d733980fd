// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/program_work.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/fnv1a.h"

namespace vicinal {
namespace {

constexpr size_t kNameDigits = 16;

std::string_view KindOf(const EdgeProgram& program) {
  const EdgeReduce first = program.results.front().reduce;
  const bool one = std::all_of(program.results.begin(), program.results.end(),
                               [&](const EdgeResult& result) { return result.reduce == first; });
  return one ? kProgramKinds[static_cast<int>(first)] : "several";
}

uint32_t Bits(float number) { return std::bit_cast<uint32_t>(number); }

// Every member of every value and result, in a form without two meanings.
std::string Written(const EdgeProgram& program) {
  std::string text = absl::StrCat(program.sources, ",", program.targets, ",", program.edge_width, ";");
  for (const EdgeValue& value : program.values) {
    absl::StrAppend(&text, static_cast<int>(value.op), ",", value.width, ",", value.a, ",", value.b, ",");
    absl::StrAppend(&text, value.index, ",", value.bias, ",", value.first, ",", Bits(value.number), ",");
    absl::StrAppend(&text, static_cast<int>(value.activation.kind), ",", Bits(value.activation.slope), ",",
                    Bits(value.activation.limit));
    for (const int32_t part : value.parts) absl::StrAppend(&text, ",", part);
    text.push_back(';');
  }
  for (const EdgeResult& result : program.results)
    absl::StrAppend(&text, "r", static_cast<int>(result.reduce), ",", result.value, ",", result.score, ";");
  return text;
}

void Read(int32_t index, const ProgramSizes::Parameter& parameter, ProgramSizes* sizes) {
  if (index < 0) return;
  const auto at = static_cast<size_t>(index);
  if (at >= sizes->parameters.size()) sizes->parameters.resize(at + 1);
  sizes->parameters[at] = parameter;
}

}  // namespace

TuningKey KeyOf(const EdgeProgram& program, EdgeWeights weights) {
  VICINAL_CHECK(program.over_edges && !program.results.empty());
  TuningKey key;
  key.operation = "expression";
  key.kind = std::string(KindOf(program));
  key.width = program.width();
  key.weights = weights;
  key.program = absl::StrCat(absl::Hex(Fnv1a(Written(program)), absl::kZeroPad16));
  return key;
}

bool IsProgramName(std::string_view name) {
  return name.size() == kNameDigits && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

ProgramSizes SizesOf(const EdgeProgram& program) {
  ProgramSizes sizes;
  std::fill_n(sizes.sources.begin(), program.sources, 1);
  std::fill_n(sizes.targets.begin(), program.targets, 1);
  const auto reach = [](const EdgeValue& value, int64_t* columns) {
    *columns = std::max(*columns, value.first + value.width);
  };
  for (const EdgeValue& value : program.values) {
    if (value.op == EdgeOp::kSource) reach(value, &sizes.sources[value.index]);
    if (value.op == EdgeOp::kTarget) reach(value, &sizes.targets[value.index]);
    if (value.op == EdgeOp::kRow) Read(value.index, {1, value.width, false}, &sizes);
    if (value.op != EdgeOp::kLinear) continue;
    Read(value.index, {value.width, program.values[value.a].width, true}, &sizes);
    Read(value.bias, {1, value.width, false}, &sizes);
  }
  return sizes;
}

ExpressionProblem ExpressionProblemOf(const EdgeProgram& program, int64_t rows, int64_t cols, int64_t edges) {
  return {CompileEdgeProgram(program, SizesOf(program).parameters.size()), rows, cols, edges};
}

double RoughProgramSeconds(const EdgeProgram& program, int64_t edges, int num_threads) {
  constexpr double kLineColumns = 16;
  const bool gpu = num_threads == 0;
  const double operations_per_second = gpu ? 1e12 : 8e9, line_seconds = gpu ? 3e-10 : 4e-9;
  const ExpressionProblem problem = ExpressionProblemOf(program, 0, 0, edges);
  const double lines = static_cast<double>(problem.code->gathered + program.edge_width) / kLineColumns;
  const double per_edge = problem.code->operations / operations_per_second + (1 + lines) * line_seconds;
  return static_cast<double>(edges) * per_edge / std::max(1, num_threads);
}

}  // namespace vicinal

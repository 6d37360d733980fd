// SPDX-License-Identifier: Apache-2.0
#include "engine/model/expressions/expression_hints.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/printable.h"
#include "engine/model/expressions/expression_functions.h"

namespace vicinal::internal {
namespace {

// "x" and "x1", "x2" ...: an input without an end of an edge.
bool IsInput(std::string_view name) {
  return !name.empty() && name[0] == 'x' &&
         std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string HintForOperator(std::string_view text) {
  const bool power =
      absl::StartsWith(absl::string_view(text.data(), text.size()), "**") || (!text.empty() && text[0] == '^');
  if (power) return "write square(a) for a ** 2, sqrt(a) for a ** 0.5, and exp(p * log(a)) for other powers of a > 0";
  if (!text.empty() && text[0] == '@')
    return "write linear(a, W) for a product with a tensor W [out, in], and dot(a, b) for one of two values";
  if (!text.empty() && (text[0] == '<' || text[0] == '>'))
    return "there are no comparisons; relu, clamp, threshold, min and max choose by size";
  return "";
}

std::string HintForFunction(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return "";
  const std::string_view last = name.substr(dot + 1);
  if (!IsFunction(last)) return "";
  return absl::StrCat("functions stand before their arguments: write ", Printable(last), "(a)");
}

std::string HintForVariable(std::string_view name, const ExpressionScope& scope) {
  const bool of_edge = scope.contains(std::string_view("x_j"));
  const std::string shown = Printable(name);
  if (of_edge && (IsInput(name) || name == "degree" || name == "out_degree")) {
    const std::string in_scope = shown + "_j";
    if (!scope.contains(in_scope)) return "";
    return absl::StrCat("an edge has two ends: write ", shown, "_j for its source's, ", shown, "_i for its target's");
  }
  if (of_edge && name == "aggr") return "the reduced messages are known in update";
  const bool of_end = name.size() > 2 && (name.substr(name.size() - 2) == "_i" || name.substr(name.size() - 2) == "_j");
  if (!of_edge && of_end && scope.contains(name.substr(0, name.size() - 2)))
    return absl::StrCat("an update is of one node: write ", Printable(name.substr(0, name.size() - 2)));
  return "";
}

}  // namespace vicinal::internal

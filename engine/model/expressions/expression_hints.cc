// SPDX-License-Identifier: Apache-2.0
#include "engine/model/expressions/expression_hints.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/nearest_name.h"
#include "engine/base/printable.h"
#include "engine/model/expressions/expression_functions.h"
#include "engine/model/expressions/torch_words.h"

namespace vicinal::internal {
namespace {

constexpr std::string_view kSelf = "self.";

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// "x" and "x1", "x2" ...: an input without an end of an edge.
bool IsInput(std::string_view name) {
  return !name.empty() && name[0] == 'x' &&
         std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view WithoutSelf(std::string_view name) {
  return absl::StartsWith(Absl(name), Absl(kSelf)) ? name.substr(kSelf.size()) : name;
}

std::string_view WordAt(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && (absl::ascii_isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
  return text.substr(0, end);
}

// How a function is called with `value` as its first argument.
std::string CallOf(std::string_view function, const std::string& value) {
  const bool many = function == "cat" || function == "min" || function == "max";
  const std::string more = many                                            ? ", b, ..."
                           : function == "dot"                             ? ", b"
                           : function == "repeat"                          ? ", n"
                           : function == "linear"                          ? ", lin"
                           : function == "batch_norm"                      ? ", norm"
                           : function == "clamp" || function == "hardtanh" ? ", low, high"
                           : function == "threshold"                       ? ", at, value"
                                                                           : "";
  return absl::StrCat("write ", std::string(function), "(", value, more, ")");
}

// For a.relu() or torch.relu(a), of the name behind the last dot.
std::string ForMethod(std::string_view method, const std::string& value) {
  if (IsFunction(method))
    return absl::StrCat("functions have no module and no object before them: ", CallOf(method, value));
  return std::string(InsteadOfTorch(method));
}

}  // namespace

std::string HintForOperator(std::string_view text) {
  if (text.empty()) return "";
  if (absl::StartsWith(Absl(text), "**") || text[0] == '^')
    return "write square(a) for a ** 2, sqrt(a) for a ** 0.5, and exp(p * log(a)) for other powers of a > 0";
  if (text[0] == '@') {
    return "write linear(a, W) for a product with a tensor W [out, in], the transpose of what @ takes, and dot(a, b) "
           "for one of two values";
  }
  if (absl::StartsWith(Absl(text), "//") || text[0] == '%') return "there is no division of whole numbers; write a / b";
  if (text[0] == '<' || text[0] == '>' || absl::StartsWith(Absl(text), "==") || absl::StartsWith(Absl(text), "!="))
    return "there are no comparisons; relu, clamp, threshold, min and max choose by size";
  if (text[0] == '.') {
    const std::string_view member = WordAt(text.substr(1));
    const std::string method = ForMethod(member, "a");
    return method.empty() ? std::string(InsteadOfPython(member)) : method;
  }
  return std::string(InsteadOfPython(WordAt(text)));
}

std::string HintForColumns(std::string_view text) {
  if (text.empty()) return "";
  const std::string_view row = ", of which x[0:3] takes columns; write x[0:3] for x[:, 0:3] and x[3:4] for x[:, 3]";
  if (text[0] == ',' || text[0] == '.' || absl::StartsWith(Absl(text), "None"))
    return absl::StrCat("a value is the row of one edge or node", std::string(row));
  if (text[0] == ']') return "one column is x[3:4]";
  if (text[0] == '-') return "columns are counted from the first; write their numbers";
  if (text[0] == ':') return "columns are taken one after the other, without steps";
  return "";
}

bool ExpressionHints::HasTensor(const std::string& name) const {
  return context_.tensors.Has(context_.declaration.prefix + name);
}

// A module of the class that is called: self.lin(a), or lin(a).
std::string ExpressionHints::ForModule(std::string_view name) const {
  const std::string module(WithoutSelf(name));
  const std::string shown = Printable(module);
  if (HasTensor(module + ".running_mean")) return absl::StrCat("write batch_norm(a, ", shown, ")");
  if (HasTensor(module + ".weight")) return absl::StrCat("write linear(a, ", shown, ")");
  std::string parts;
  for (const std::string& tensor : context_.tensors.NamesFrom(context_.declaration.prefix + module + ".")) {
    const size_t end = tensor.rfind(".weight");
    if (end == std::string::npos || end + 7 != tensor.size()) continue;
    absl::StrAppend(&parts, parts.empty() ? "" : ", ", Printable(module + "." + tensor.substr(0, end)));
  }
  if (!parts.empty()) {
    return absl::StrCat("write each module of ", shown, " by itself, as in linear(relu(linear(a, nn.0)), nn.2); with ",
                        "weights it has ", parts);
  }
  if (module.size() == name.size()) return "";
  if (IsFunction(module)) return CallOf(module, "a");
  return absl::StrCat("write what the module computes: linear(a, ", shown, ") for a Linear with the tensor ",
                      Quoted(context_.declaration.prefix + module + ".weight"),
                      ", which the weights file does not have, or an activation by its name, as in relu(a)");
}

std::string ExpressionHints::ForFunction(std::string_view name) const {
  if (std::string module = ForModule(name); !module.empty()) return module;
  const size_t dot = name.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
  if (dot != std::string_view::npos) {
    const std::string_view object = name.substr(0, dot);
    std::string method = ForMethod(last, scope_.contains(object) ? Printable(object) : "a");
    if (!method.empty()) return method;
  } else if (const std::string_view write = InsteadOfTorch(name); !write.empty()) {
    return std::string(write);
  }
  const std::string nearest = NearestName(last, FunctionList());
  return nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "?");
}

// A variable of the layer's other expression.
std::string ExpressionHints::ForVariable(std::string_view name) const {
  const bool of_edge = scope_.contains(std::string_view("x_j"));
  const std::string shown = Printable(name);
  if (of_edge && (IsInput(name) || name == "degree" || name == "out_degree")) {
    if (!scope_.contains(shown + "_j")) return "";
    return absl::StrCat("an edge has two ends: write ", shown, "_j for its source's, ", shown, "_i for its target's");
  }
  if (of_edge && name == "aggr") return "the reduced messages are known in update";
  if (!of_edge && (name == "edge_attr" || name == "edge_weight"))
    return absl::StrCat("an update is of one node, which has none: read ", shown, " in message");
  const bool of_end = name.size() > 2 && (name.substr(name.size() - 2) == "_i" || name.substr(name.size() - 2) == "_j");
  if (!of_edge && of_end && scope_.contains(name.substr(0, name.size() - 2)))
    return absl::StrCat("an update is of one node: write ", Printable(name.substr(0, name.size() - 2)));
  return "";
}

std::string ExpressionHints::ForName(std::string_view name, std::string_view after) const {
  if (std::string variable = ForVariable(name); !variable.empty()) return variable;
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(Absl(after)), "=")) {
    if (name == "dim" || name == "axis" || name == "keepdim")
      return "functions go over columns, the only dimension: leave it out";
    return "arguments have no names: write the value alone, as in leaky_relu(a, 0.2)";
  }
  const size_t dot = name.rfind('.');
  if (const std::string_view own = WithoutSelf(name); own.size() < name.size()) {
    if (HasTensor(std::string(own)) || HasTensor(std::string(own) + ".weight") || scope_.contains(own))
      return absl::StrCat("names are those of the state_dict, without self: write ", Printable(own));
    return absl::StrCat("names are those of the state_dict, without self, and numbers stand as numbers; the weights ",
                        "file has no ", Quoted(context_.declaration.prefix + std::string(own)));
  }
  if (const std::string_view write = InsteadOfPython(dot == std::string_view::npos ? name : name.substr(dot + 1));
      !write.empty())
    return std::string(write);
  return Nearest(name);
}

// A variable, a tensor or module of the layer, or a function that is spelt nearly so.
std::string ExpressionHints::Nearest(std::string_view name) const {
  std::vector<std::string> known;
  for (const auto& [variable, value] : scope_) known.push_back(variable);
  for (const std::string& tensor : context_.tensors.NamesFrom(context_.declaration.prefix)) {
    known.push_back(tensor);
    const size_t dot = tensor.rfind('.');
    if (dot != std::string::npos) known.push_back(tensor.substr(0, dot));  // the module
  }
  for (std::string& function : FunctionList()) known.push_back(std::move(function));
  const std::string nearest = NearestName(name, known);
  if (nearest.empty()) return "";
  return absl::StrCat("did you mean ", Printable(nearest), "? It is no variable, and the weights file has no ",
                      Quoted(context_.declaration.prefix + std::string(name)));
}

}  // namespace vicinal::internal

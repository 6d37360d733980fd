// SPDX-License-Identifier: Apache-2.0
// MessagePassing: a convolution whose message is an expression (docs/message_passing.md). `message` is the value of an
// edge (j -> i), `aggr` its reductions over in-edges, side by side, `score` the logarithms of the weights of a softmax,
// `update` the result of a node. Loops and duplicates count as sent unless `self_loops` says otherwise; no in-edges: 0.
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/printable.h"
#include "engine/model/expressions/lower_message.h"
#include "engine/model/expressions/parse_expression.h"
#include "engine/model/layers/edge_features.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

constexpr std::array<std::string_view, 7> kReduces = {"sum", "mean", "max", "min", "var", "std", "softmax"};
constexpr size_t kMostReductions = 16;
constexpr size_t kMostInputs = 8;

// An expression: a text, or a list of texts that are its lines. Empty if the argument is absent.
StatusOr<std::string> ReadText(const LayerContext& context, const char* argument) {
  const nlohmann::json& json = context.args.Raw(argument);
  if (json.is_null()) return std::string();
  if (json.is_string()) return json.get<std::string>();
  std::string text;
  bool lines = json.is_array();
  for (const nlohmann::json& line : json) {
    if (!lines || !line.is_string()) {
      lines = false;
      break;
    }
    text += line.get<std::string>() + "\n";
  }
  if (lines) return text;
  return BadArchitecture(context.args.FieldOf(argument),
                         context.args.FieldOf(argument) + " must be an expression: a text, or a list of its lines");
}

StatusOr<EdgeReduce> ReadReduce(const LayerContext& context, const nlohmann::json& json) {
  const std::string name = json.is_string() ? json.get<std::string>() : "";
  for (size_t r = 0; r < kReduces.size(); ++r) {
    if (name == kReduces[r] || (r == 0 && name == "add")) return static_cast<EdgeReduce>(r);
  }
  return UnsupportedArgument(context.args.FieldOf("aggr"),
                             context.Describe() + " has an aggr that is not supported, " + json.dump() +
                                 "; supported: sum (or add), mean, max, min, var, std, softmax, or a list of these");
}

StatusOr<std::vector<EdgeReduce>> ReadReduces(const LayerContext& context) {
  const nlohmann::json& json = context.args.Raw("aggr");
  std::vector<EdgeReduce> reduces;
  if (!json.is_array()) {
    VICINAL_ASSIGN_OR_RETURN(const EdgeReduce reduce, ReadReduce(context, json));
    return std::vector<EdgeReduce>{reduce};
  }
  if (json.empty() || json.size() > kMostReductions) {
    return BadArchitecture(context.args.FieldOf("aggr"), context.args.FieldOf("aggr") + " must have 1 to " +
                                                             std::to_string(kMostReductions) + " reductions");
  }
  for (const nlohmann::json& one : json) {
    VICINAL_ASSIGN_OR_RETURN(const EdgeReduce reduce, ReadReduce(context, one));
    reduces.push_back(reduce);
  }
  return reduces;
}

// "x", "x1", "x2" ...
std::string InputName(size_t input) { return input == 0 ? "x" : "x" + std::to_string(input); }

StatusOr<MessageDeclaration> ReadGraph(const LayerContext& context) {
  MessageDeclaration declaration;
  declaration.field = context.args.FieldOf("message");
  declaration.edge_width = EdgeDim(context);
  VICINAL_ASSIGN_OR_RETURN(declaration.loop_features, ReadFillValue(context));
  const std::string loops = context.args.Choice("self_loops");
  AdjacencySpec& adjacency = declaration.adjacency;
  if (loops == "add_remaining") adjacency.loops = SelfLoops::kAddRemaining;
  if (loops == "replace") adjacency.loops = SelfLoops::kReplace;
  if (declaration.edge_width > 0 && adjacency.loops == SelfLoops::kAddRemaining) {
    return UnsupportedArgument(context.args.FieldOf("self_loops"),
                               context.Describe() +
                                   " adds the self-loops that are missing, whose features of edges are "
                                   "not supported; \"replace\" gives every node a loop with fill_value");
  }
  const bool weighted = context.declaration.edge_weight;
  if (context.args.Bool("normalize")) {
    adjacency.weighting = weighted ? EdgeWeighting::kGcnSent : EdgeWeighting::kGcnOnes;
  } else if (weighted) {
    adjacency.weighting = EdgeWeighting::kSent;
  }
  return declaration;
}

Status CannotHave(const LayerContext& context, const char* argument, const std::string& name, const Status& why) {
  const std::string field = context.args.FieldOf(argument);
  return BadArchitecture(
      field, field + " of " + context.Describe() + " cannot have " + Quoted(name) + ": " + std::string(why.message()));
}

StatusOr<ExpressionScope> EdgeScope(const LayerContext& context, const MessageDeclaration& declaration,
                                    Expressions* made) {
  ExpressionScope scope;
  const auto add = [&](const std::string& name, EdgeOp op, int32_t index, int64_t width) -> Status {
    const StatusOr<int32_t> value = made->Leaf(op, index, width);
    if (!value.ok()) return CannotHave(context, "message", name, value.status());
    scope.emplace(name, *value);
    return OkStatus();
  };
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const int64_t width = context.steps.width(context.inputs[i]);
    VICINAL_RETURN_IF_ERROR(add(InputName(i) + "_j", EdgeOp::kSource, static_cast<int32_t>(i), width));
    VICINAL_RETURN_IF_ERROR(add(InputName(i) + "_i", EdgeOp::kTarget, static_cast<int32_t>(i), width));
  }
  VICINAL_RETURN_IF_ERROR(add("degree_j", EdgeOp::kSource, kDegreeMatrix, 1));
  VICINAL_RETURN_IF_ERROR(add("degree_i", EdgeOp::kTarget, kDegreeMatrix, 1));
  VICINAL_RETURN_IF_ERROR(add("out_degree_j", EdgeOp::kSource, kOutDegreeMatrix, 1));
  VICINAL_RETURN_IF_ERROR(add("out_degree_i", EdgeOp::kTarget, kOutDegreeMatrix, 1));
  if (declaration.edge_width > 0) {
    VICINAL_RETURN_IF_ERROR(add("edge_attr", EdgeOp::kFeatures, -1, declaration.edge_width));
  }
  if (declaration.adjacency.weighting != EdgeWeighting::kNone) {
    VICINAL_RETURN_IF_ERROR(add("edge_weight", EdgeOp::kWeight, -1, 1));
  }
  return scope;
}

StatusOr<ExpressionScope> NodeScope(const LayerContext& context, int64_t aggregate, Expressions* made) {
  ExpressionScope scope;
  const auto add = [&](const std::string& name, int32_t index, int64_t width) -> Status {
    const StatusOr<int32_t> value = made->Leaf(EdgeOp::kTarget, index, width);
    if (!value.ok()) return CannotHave(context, "update", name, value.status());
    scope.emplace(name, *value);
    return OkStatus();
  };
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    VICINAL_RETURN_IF_ERROR(add(InputName(i), static_cast<int32_t>(i), context.steps.width(context.inputs[i])));
  }
  VICINAL_RETURN_IF_ERROR(add("degree", kDegreeMatrix, 1));
  VICINAL_RETURN_IF_ERROR(add("out_degree", kOutDegreeMatrix, 1));
  VICINAL_RETURN_IF_ERROR(add("aggr", kAggregateMatrix, aggregate));
  return scope;
}

// The results of `message`: one per reduction, and a softmax by `score`.
StatusOr<std::vector<EdgeResult>> ReadResults(const LayerContext& context, const MessageDeclaration& declaration,
                                              Expressions* made) {
  VICINAL_ASSIGN_OR_RETURN(const std::vector<EdgeReduce> reduces, ReadReduces(context));
  VICINAL_ASSIGN_OR_RETURN(ExpressionScope scope, EdgeScope(context, declaration, made));
  VICINAL_ASSIGN_OR_RETURN(const std::string message, ReadText(context, "message"));
  VICINAL_ASSIGN_OR_RETURN(const std::string score, ReadText(context, "score"));
  const std::string field = context.args.FieldOf("message"), score_field = context.args.FieldOf("score");
  if (message.empty())
    return BadArchitecture(field, context.Describe() + " needs a message, an expression such as \"relu(x_j)\"");
  VICINAL_ASSIGN_OR_RETURN(const int32_t value, ParseExpression(message, field, context, made, &scope));
  int32_t weight = value;  // without a score, a message is its own, as in SoftmaxAggregation
  if (!score.empty()) {
    VICINAL_ASSIGN_OR_RETURN(weight, ParseExpression(score, score_field, context, made, &scope));
    const int64_t scores = (*made)[weight].width, width = (*made)[value].width;
    if (width % scores != 0) {
      return BadArchitecture(score_field, score_field + " of " + context.Describe() + " has " + std::to_string(scores) +
                                              " columns, the message " + std::to_string(width) +
                                              "; a score belongs to one column, to a part of equal width, or to all");
    }
  }
  std::vector<EdgeResult> results;
  bool softmax = false;
  for (const EdgeReduce reduce : reduces) {
    results.push_back({reduce, value, reduce == EdgeReduce::kSoftmax ? weight : -1});
    softmax = softmax || reduce == EdgeReduce::kSoftmax;
  }
  if (softmax || score.empty()) return results;
  return BadArchitecture(score_field,
                         context.Describe() + " has a score, but its aggr has no \"softmax\"; remove " + score_field);
}

// Arguments that nothing reads would mean something else than they say.
Status CheckRead(const LayerContext& context, const MessageDeclaration& declaration, const Expressions& made) {
  const auto reads = [&](EdgeOp op) {
    for (const EdgeResult& result : declaration.results) {
      if (made.Reads(result.value, op, -1) || (result.score >= 0 && made.Reads(result.score, op, -1))) return true;
    }
    return false;
  };
  if (declaration.edge_width > 0 && !reads(EdgeOp::kFeatures)) {
    return BadArchitecture(context.args.FieldOf("edge_dim"),
                           context.Describe() + " has edge_dim, but no expression reads edge_attr; remove edge_dim");
  }
  if (declaration.adjacency.weighting != EdgeWeighting::kNone && !reads(EdgeOp::kWeight)) {
    return BadArchitecture(context.declaration.field,
                           context.Describe() +
                               " has weights of edges (edge_weight or normalize), but no expression "
                               "reads edge_weight; multiply the message by it, or remove them");
  }
  return OkStatus();
}

StatusOr<ValueId> LowerMessagePassing(const LayerContext& context) {
  VICINAL_ASSIGN_OR_RETURN(MessageDeclaration declaration, ReadGraph(context));
  Expressions made;
  VICINAL_ASSIGN_OR_RETURN(declaration.results, ReadResults(context, declaration, &made));
  VICINAL_ASSIGN_OR_RETURN(const std::string update, ReadText(context, "update"));
  if (!update.empty()) {
    int64_t width = 0;
    for (const EdgeResult& result : declaration.results) width += made[result.value].width;
    const std::string field = context.args.FieldOf("update");
    if (width > kMaxExpressionWidth)
      return BadArchitecture(field, context.Describe() + " has " + std::to_string(width) +
                                        " aggregated columns; at most " + std::to_string(kMaxExpressionWidth) +
                                        " can be read by an update");
    VICINAL_ASSIGN_OR_RETURN(ExpressionScope scope, NodeScope(context, width, &made));
    VICINAL_ASSIGN_OR_RETURN(declaration.update, ParseExpression(update, field, context, &made, &scope));
    if (!made.Reads(declaration.update, EdgeOp::kTarget, kAggregateMatrix)) {
      return BadArchitecture(field, field + " of " + context.Describe() +
                                        " does not read aggr, the reduced messages; use it, or declare other layers");
    }
  }
  // After all expressions: a misspelt name in one of them may be why nothing reads these.
  VICINAL_RETURN_IF_ERROR(CheckRead(context, declaration, made));
  return LowerMessage(context, declaration, &made);
}

}  // namespace

LayerType MessagePassing() {
  LayerType type;
  type.name = "MessagePassing";
  type.arguments = {AnyArgument("message", nullptr),
                    AnyArgument("aggr", "sum"),
                    AnyArgument("score", nullptr),
                    AnyArgument("update", nullptr),
                    EdgeDimArgument(),
                    ChoiceArgument("self_loops", "as_sent", {"as_sent", "add_remaining", "replace"}),
                    FillValueArgument(),
                    BoolArgument("normalize", false)};
  AddArguments(MessagePassingArguments(false), &type.arguments);
  type.max_inputs = kMostInputs;
  type.convolution = true;
  type.takes_edge_weight = true;
  type.lower = LowerMessagePassing;
  return type;
}

}  // namespace vicinal::internal

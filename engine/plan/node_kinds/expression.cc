// SPDX-License-Identifier: Apache-2.0
// Expressions over edges with their reductions, and over rows: operation expression. The formula that Explain shows is
// the program written out again.
#include "engine/plan/node_kinds/expression.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/kernels/expression.h"
#include "engine/kernels/expression_form.h"
#include "engine/plan/build/kernel_choice.h"
#include "engine/plan/build/step_binder.h"
#include "engine/plan/node_kinds/message_reduce.h"
#include "engine/plan/node_kinds/node_traits.h"
#include "engine/plan/node_kinds/step_description.h"
#include "engine/tune/kept_record.h"
#include "engine/tune/program_work.h"

namespace vicinal::internal {
namespace {

bool GathersSources(const Node& node, size_t index) {
  return index < static_cast<size_t>(node.expression.program->sources);
}

// Writes values out. Values that several read are repeated, so the text is cut where it grows long.
class FormulaWriter {
 public:
  FormulaWriter(const StepDescription& step, const EdgeProgram& program) : step_(step), program_(program) {}

  std::string Results() {
    std::string text;
    const std::vector<EdgeResult>& results = program_.results;
    for (size_t first = 0, end = 0; first < results.size(); first = end) {
      end = first + 1;
      while (end < results.size() && SameValue(results[first], results[end])) ++end;
      if (!text.empty()) text += " beside ";
      if (program_.over_edges) absl::StrAppend(&text, Reductions(first, end), " over ", step_.AdjacencyShape(), " of ");
      Add(results[first].value, &text);
      if (results[first].score < 0) continue;
      text += " by ";
      Add(results[first].score, &text);
    }
    return text;
  }

 private:
  static constexpr size_t kLongest = 600;

  static bool SameValue(const EdgeResult& a, const EdgeResult& b) { return a.value == b.value && a.score == b.score; }
  // "sum, mean and max": reductions of one value.
  std::string Reductions(size_t first, size_t end) const {
    constexpr const char* kNames[] = {"sum", "mean", "max", "min", "var", "std", "softmax-weighted sum"};
    std::string names;
    for (size_t i = first; i < end; ++i) {
      absl::StrAppend(&names,
                      i == first     ? ""
                      : i + 1 == end ? " and "
                                     : ", ",
                      kNames[static_cast<int>(program_.results[i].reduce)]);
    }
    return names;
  }

  void Add(int32_t v, std::string* text) const {
    if (text->size() > kLongest) {
      text->append("...");
      return;
    }
    const EdgeValue& value = program_.values[v];
    switch (value.op) {
      case EdgeOp::kSource:
        return AddColumns(value, step_.Shape(Input(value.index)), Input(value.index), "_j", text);
      case EdgeOp::kTarget:
        return AddColumns(value, step_.Shape(Input(program_.sources + value.index)),
                          Input(program_.sources + value.index), program_.over_edges ? "_i" : "", text);
      case EdgeOp::kFeatures:
        absl::StrAppend(text, "edge features [", value.width, "]");
        return;
      case EdgeOp::kWeight:
        text->append("edge weight");
        return;
      case EdgeOp::kNumber:
        absl::StrAppend(text, value.number);
        return;
      case EdgeOp::kRow:
        absl::StrAppend(text, "row [", value.width, "]");
        return;
      case EdgeOp::kAdd:
      case EdgeOp::kSubtract:
      case EdgeOp::kMultiply:
      case EdgeOp::kDivide:
        return AddInfix(value, text);
      default:
        return AddCall(value, text);
    }
  }

  ValueId Input(int32_t index) const { return step_.node().inputs[index]; }

  void AddColumns(const EdgeValue& value, const std::string& name, ValueId input, const char* end,
                  std::string* text) const {
    absl::StrAppend(text, name, end);
    if (value.first > 0 || value.width < step_.WidthOf(input))
      absl::StrAppend(text, "[", value.first, ":", value.first + value.width, "]");
  }

  void AddInfix(const EdgeValue& value, std::string* text) const {
    constexpr const char* kSigns[] = {" + ", " - ", " * ", " / "};
    text->append("(");
    Add(value.a, text);
    text->append(kSigns[static_cast<int>(value.op) - static_cast<int>(EdgeOp::kAdd)]);
    Add(value.b, text);
    text->append(")");
  }

  static std::string NameOf(const EdgeValue& value) {
    switch (value.op) {
      case EdgeOp::kMin:
        return "min";
      case EdgeOp::kMax:
        return "max";
      case EdgeOp::kActivation:
        return std::string(ToString(value.activation.kind));
      case EdgeOp::kLog:
        return "log";
      case EdgeOp::kAbs:
        return "abs";
      case EdgeOp::kLinear:
        return "linear";
      case EdgeOp::kDot:
        return "dot";
      case EdgeOp::kSum:
        return "sum";
      case EdgeOp::kRepeat:
        return "repeat";
      case EdgeOp::kSlice:
        return "slice";
      default:
        return "cat";
    }
  }

  void AddCall(const EdgeValue& value, std::string* text) const {
    absl::StrAppend(text, NameOf(value), "(");
    if (value.a >= 0) Add(value.a, text);
    for (size_t p = 0; p < value.parts.size(); ++p) {
      if (p > 0) text->append(", ");
      Add(value.parts[p], text);
    }
    if (value.b >= 0) {
      text->append(", ");
      Add(value.b, text);
    }
    if (value.op == EdgeOp::kLinear)
      absl::StrAppend(text, ", W [", value.width, ", ", program_.values[value.a].width, "]");
    text->append(")");
  }

  const StepDescription& step_;
  const EdgeProgram& program_;
};

void DescribeExpression(StepDescription* step) {
  const Node& node = step->node();
  const EdgeProgram& program = *node.expression.program;
  const std::shared_ptr<const EdgeCode> code = CompileEdgeProgram(program, node.expression.parameters.size());
  *step->formula() = FormulaWriter(*step, program).Results();
  int64_t read = 0, own = 0;
  for (size_t i = program.sources; i < node.inputs.size(); ++i) own += step->Elements(node.inputs[i]);
  for (const WeightRef& parameter : node.expression.parameters) own += static_cast<int64_t>(parameter->values.size());
  const int64_t turns = program.over_edges ? step->sizes().edges : step->sizes().nodes;
  if (program.over_edges) read = turns * (code->gathered + code->edge_width) * StepDescription::kFloatBytes;
  step->SetCost((program.over_edges ? step->AdjacencyBytes() : 0) + read + own * StepDescription::kFloatBytes,
                turns * (static_cast<int64_t>(code->operations) + (program.over_edges ? code->width : 0)));
}

// Matrices packed for the kernel, rows as they are.
Status BindParameters(const ExpressionStep& expression, StepBinder* step, Bound<ExpressionKernel>* bound) {
  const EdgeCode& code = *bound->args.problem.code;
  std::vector<const void*> parameters(expression.parameters.size());
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (code.is_matrix[p]) {
      VICINAL_ASSIGN_OR_RETURN(parameters[p], step->Pack(*bound, *SentWeight(expression.parameters[p])));
    } else {
      VICINAL_ASSIGN_OR_RETURN(parameters[p], step->Copy(expression.parameters[p]->values));
    }
  }
  const auto copy = [step](const std::vector<float>& bytes) { return step->Copy(bytes); };
  return SetExpressionParameters(bound->kernel->kernel(), std::move(parameters), copy, &bound->args);
}

// Nothing where it is not tuned: values of rows, results wider than records may say, and where there is no choice.
std::optional<TuningWork> WorkOf(const StepBinder& step, const ExpressionProblem& problem, bool weighted) {
  const ExpressionStep& expression = step.node().expression;
  const EdgeProgram& program = *expression.program;
  if (!program.over_edges || program.width() > kMaxTuningColumns) return std::nullopt;
  if (!HasChoice(step.registry().expression, problem, step.device())) return std::nullopt;
  const EdgeWeights weights = weighted ? EdgeWeights::kPerEdge : EdgeWeights::kNone;
  return TuningWork{KeyOf(program, weights), step.node().adjacency, expression.program};
}

ExpressionProblem ProblemOver(const ExpressionStep& expression, const AdjacencyShape& shape) {
  ExpressionProblem problem;
  problem.code = CompileEdgeProgram(*expression.program, expression.parameters.size());
  problem.rows = shape.rows;
  problem.cols = shape.cols;
  problem.edges = shape.edges;
  return problem;
}

// Answers of plans with and without such a step differ in their last bits, so the plan has a revision of its own.
int64_t OrderInPlaceOfMessages(const DeclaredOrder& order) {
  return ReductionOrderId(kOperationName<MessageReduceProblem>, {order.name, order.version});
}

// Why expressions were not compared with message_reduce on messages like those of `node`; empty: they were faster.
std::string WhyNotMeasured(const Node& node) {
  if (node.edge_term.width > 0) return "it was not measured with features of edges";
  constexpr int64_t kNarrow = 8;
  const bool wide = std::any_of(node.message_layers.begin(), node.message_layers.end(),
                                [](const MessageLayer& layer) { return layer.weight->cols > kNarrow; });
  return wide ? std::string() : absl::StrCat("it was not measured with products of at most ", kNarrow, " inputs");
}

template <class K>
bool IsForced(const BuildContext& context, const OperationKernels<K>& operation) {
  return !ForcedText(context.request.forced, operation.operation()).empty();
}

StatusOr<KernelChoice<ExpressionKernel>> ChooseExpressionKernel(const BuildContext& context,
                                                                const ExpressionProblem& problem) {
  bool tuned = false;
  return ChooseKernel(context.registry.expression, problem, context.device.kind(), context.request, std::nullopt,
                      &tuned);
}

// Why runs of the program, with the parameters that the request forces, will not be fast; empty: they will.
std::string WhyNotFastAsForced(const BuildContext& context, const ExpressionKernel& kernel,
                               const ExpressionProblem& problem) {
  const OperationKernels<ExpressionKernel>& operation = context.registry.expression;
  const auto config =
      ParseParameters(ParametersOf(operation, kernel), ForcedParameters(context.request.forced, operation.operation()));
  if (!config.ok()) return std::string(config.status().message());
  if (std::string why = WhyQuarantined(context.request.first_runs, operation, kernel, *config); !why.empty())
    return why;
  const std::string why = WhyNotFast(kernel, problem, *config);
  return why.empty() ? why : absl::StrCat(std::string(kernel.name()), ": ", why);
}

Status BindExpression(StepBinder* step) {
  const Node& node = step->node();
  const ExpressionStep& expression = node.expression;
  const EdgeProgram& program = *expression.program;
  CsrView adjacency;
  AdjacencyShape shape;
  shape.rows = step->RowsOf(node.output);
  if (program.over_edges) {
    shape = step->ShapeOfAdjacency();
    VICINAL_ASSIGN_OR_RETURN(adjacency, step->Adjacency());
  }
  const ExpressionProblem problem = ProblemOver(expression, shape);
  const std::optional<TuningWork> work = WorkOf(*step, problem, shape.weighted);
  VICINAL_ASSIGN_OR_RETURN(auto* bound,
                           step->Choose(step->registry().expression, problem, work.has_value() ? &*work : nullptr));
  if (node.in_place_of_messages)
    step->NoteReductionOrder(OrderInPlaceOfMessages(bound->kernel->kernel().declared_order()));
  ExpressionArgs& args = bound->args;
  args.adjacency = adjacency;
  VICINAL_RETURN_IF_ERROR(BindParameters(expression, step, bound));
  for (int32_t i = 0; i < program.sources; ++i) step->Input(node.inputs[i], &args.sources[i]);
  for (int32_t i = 0; i < program.targets; ++i) step->Input(node.inputs[program.sources + i], &args.targets[i]);
  if (expression.edge_width == 0) return OkStatus();
  return step->EdgeFeatures(expression.edge_width, expression.loop_features, &args.edge);
}

}  // namespace

bool MayCompileExpressions(const BuildContext& context) {
  const auto& kernels = context.registry.expression.kernels();
  return std::any_of(kernels.begin(), kernels.end(), [&context](const auto& entry) {
    return entry->kernel().device() == context.device.kind() && MakesForms(entry->kernel());
  });
}

std::string WhyNotExpressed(BuildContext* context, const Node& node, const ExpressionStep& step) {
  const KernelRegistry& registry = context->registry;
  if (IsForced(*context, registry.message_reduce)) return "the request forces a kernel of message_reduce";
  const ExpressionProblem problem = ProblemOver(step, context->shapes.Of(node.adjacency));
  const auto choice = ChooseExpressionKernel(*context, problem);
  if (!choice.ok()) return std::string(choice.status().message());
  if (!WhyNoMessageKernel(context, node).empty()) return {};  // slow or not, it is the only one
  if (std::string why = WhyNotMeasured(node); !why.empty()) return why;
  return WhyNotFastAsForced(*context, choice->kernel->kernel(), problem);
}

std::string WhyNotPerEdge(BuildContext* context, const Node& node, const ExpressionStep& step) {
  const KernelRegistry& registry = context->registry;
  if (IsForced(*context, registry.message_reduce)) return "the request forces a kernel of message_reduce";
  if (IsForced(*context, registry.dense_update)) return "the request forces its kernel";
  const ExpressionProblem problem = ProblemOver(step, context->shapes.Of(node.adjacency));
  const auto choice = ChooseExpressionKernel(*context, problem);
  if (!choice.ok()) return std::string(choice.status().message());
  return WhyNotFastAsForced(*context, choice->kernel->kernel(), problem);
}

constinit const NodeTraits kExpressionTraits = {
    .kind = NodeKind::kExpression,
    .name = "expression",
    .locality = Locality::kNeighbourhood,
    .fuses_epilogue = true,
    .gathers = GathersSources,
    .describe = DescribeExpression,
    .bind = BindExpression,
};

constinit const NodeTraits kRowExpressionTraits = {
    .kind = NodeKind::kRowExpression,
    .name = "row_expression",
    .fuses_epilogue = true,
    .describe = DescribeExpression,
    .bind = BindExpression,
};

}  // namespace vicinal::internal

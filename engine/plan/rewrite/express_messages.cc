// SPDX-License-Identifier: Apache-2.0
// Message networks as programs of the operation expression, where its kernel is compiled for a program: the rest of the
// network stays in one kernel that knows all its widths.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/plan/rewrite/rewrite.h"

namespace vicinal::internal {
namespace {

// EdgeConv's messages, and those of other layers that have its form.
bool IsNetwork(const Node& node) {
  return node.kind == NodeKind::kMessageReduce && node.edge_function == EdgeFunction::kActivation &&
         !node.message_layers.empty() && !node.softmax_temperature.has_value() &&
         node.adjacency.weighting == EdgeWeighting::kNone;
}

EdgeReduce ReduceOf(Reduce reduce) {
  constexpr EdgeReduce kReduces[] = {EdgeReduce::kSum, EdgeReduce::kMean, EdgeReduce::kMax, EdgeReduce::kMin};
  return kReduces[static_cast<int>(reduce)];
}

// A weight of the model as it is, any other one rounded, as whoever packs it would.
WeightRef Rounded(const ProductWeight& weight) {
  if (weight.plain()) return weight.pieces[0].sent;
  auto rounded = std::make_shared<Weight>();
  rounded->shape = {weight.rows, weight.cols};
  rounded->values.resize(static_cast<size_t>(weight.rows * weight.cols));
  weight.Round(rounded->values.data());
  return rounded;
}

WeightRef Rounded(const Parameters& vector) {
  auto rounded = std::make_shared<Weight>();
  rounded->shape = {static_cast<int64_t>(vector.values.size())};
  rounded->values.assign(vector.values.begin(), vector.values.end());
  return rounded;
}

// Puts one value after the other.
class ProgramMaker {
 public:
  // Columns [0, width) of the only matrix of sources or targets.
  int32_t Rows(EdgeOp op, int64_t width) {
    (op == EdgeOp::kSource ? program_.sources : program_.targets) = 1;
    EdgeValue rows;
    rows.op = op;
    rows.width = width;
    rows.index = 0;
    return Put(std::move(rows));
  }
  // W e + b, or e itself.
  int32_t Features(const EdgeTerm& term) {
    program_.edge_width = term.width;
    EdgeValue features;
    features.op = EdgeOp::kFeatures;
    features.width = term.width;
    const int32_t put = Put(std::move(features));
    return term.weight != nullptr ? Product(put, term.weight, term.bias) : put;
  }
  int32_t Sum(int32_t a, int32_t b) {
    EdgeValue sum;
    sum.op = EdgeOp::kAdd;
    sum.a = a;
    sum.b = b;
    sum.width = program_.values[a].width;
    return Put(std::move(sum));
  }
  int32_t Product(int32_t a, WeightRef weight, WeightRef bias) {
    EdgeValue product;
    product.op = EdgeOp::kLinear;
    product.a = a;
    product.width = weight->shape[0];
    product.index = Parameter(std::move(weight));
    if (bias != nullptr) product.bias = Parameter(std::move(bias));
    return Put(std::move(product));
  }
  int32_t Activated(int32_t a, const Activation& activation) {
    if (activation.kind == ActivationKind::kNone) return a;
    EdgeValue activated;
    activated.op = EdgeOp::kActivation;
    activated.a = a;
    activated.width = program_.values[a].width;
    activated.activation = activation;
    return Put(std::move(activated));
  }
  // The step whose result is `value`, reduced as `node` says.
  ExpressionStep Finish(int32_t value, const Node& node) {
    program_.results = {{ReduceOf(node.reduce), value, -1}};
    ExpressionStep step;
    step.adjacency = node.adjacency;
    step.edge_width = program_.edge_width;
    step.parameters = std::move(parameters_);
    step.program = std::make_shared<const EdgeProgram>(std::move(program_));
    return step;
  }

 private:
  int32_t Put(EdgeValue value) {
    program_.values.push_back(std::move(value));
    return static_cast<int32_t>(program_.values.size()) - 1;
  }
  int32_t Parameter(WeightRef weight) {
    parameters_.push_back(std::move(weight));
    return static_cast<int32_t>(parameters_.size()) - 1;
  }

  EdgeProgram program_;
  std::vector<WeightRef> parameters_;
};

// activation(u_j + v_i + W e), then layer after layer.
ExpressionStep NetworkProgram(const Program& program, const Node& node) {
  ProgramMaker maker;
  const int64_t width = program.values[node.inputs[0]].width;
  int32_t value = maker.Rows(EdgeOp::kSource, width);
  if (node.inputs.size() > 1) value = maker.Sum(value, maker.Rows(EdgeOp::kTarget, width));
  if (node.edge_term.width > 0) value = maker.Sum(value, maker.Features(node.edge_term));
  value = maker.Activated(value, node.message_activation);
  for (const MessageLayer& layer : node.message_layers) {
    value = maker.Product(value, Rounded(*layer.weight), layer.bias != nullptr ? Rounded(*layer.bias) : nullptr);
    value = maker.Activated(value, layer.activation);
  }
  return maker.Finish(value, node);
}

// `node` with `step` in place of its messages, the same inputs, output and epilogue.
Node Expressed(const Node& node, ExpressionStep step) {
  Node expressed;
  expressed.kind = NodeKind::kExpression;
  expressed.inputs = node.inputs;
  expressed.output = node.output;
  expressed.epilogue = node.epilogue;
  expressed.layers = node.layers;
  expressed.adjacency = node.adjacency;
  expressed.expression = std::move(step);
  expressed.in_place_of_messages = true;
  return expressed;
}

}  // namespace

Program ExpressMessages(Program program, const ExpressionRefusal& why_not) {
  for (Node& node : program.nodes) {
    if (!IsNetwork(node)) continue;
    ExpressionStep step = NetworkProgram(program, node);
    const std::string refusal = why_not(node, step);
    program.Tell(
        absl::StrCat(LayerNames(program, node), ": the message network is ",
                     refusal.empty() ? "computed as an expression" : absl::StrCat("no expression: ", refusal)));
    if (refusal.empty()) node = Expressed(node, std::move(step));
  }
  return program;
}

}  // namespace vicinal::internal

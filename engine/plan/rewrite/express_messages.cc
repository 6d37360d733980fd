// SPDX-License-Identifier: Apache-2.0
// Messages as programs of the operation expression, where its kernel is compiled for a program: message networks, whose
// kernel then knows all widths; and products of few inputs, of which a source then has a few numbers to gather in place
// of a row of results.
#include <memory>
#include <optional>
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

// activation(u_j + v_i) and no more.
bool IsActivatedSum(const Node& node) {
  return node.kind == NodeKind::kMessageReduce && node.edge_function == EdgeFunction::kActivation &&
         node.message_layers.empty() && node.edge_term.width == 0 && !node.softmax_temperature.has_value() &&
         node.inputs.size() == 2 && node.adjacency.weighting == EdgeWeighting::kNone;
}

// What was measured: 8 inputs, and results from which on gathering them takes longer than computing them.
constexpr int64_t kMostEdgeInputs = 8;
constexpr int64_t kFewestEdgeResults = 128;

// x W^T for both u and v of an activated sum: W (x_j + x_i), plus the sum of both biases.
struct CommonProduct {
  int producer = -1;  // the node that nobody else reads
  ValueId x = 0;
  WeightRef weight;
  WeightRef bias;  // or null
};

// The sum of `count` numbers from `first` on and as many from `second` on; null for null.
WeightRef SummedBias(const ParametersRef& bias, int64_t first, int64_t second, int64_t count) {
  if (bias == nullptr) return nullptr;
  auto sum = std::make_shared<Weight>();
  sum->shape = {count};
  for (int64_t i = 0; i < count; ++i)
    sum->values.push_back(static_cast<float>(bias->values[first + i] + bias->values[second + i]));
  return sum;
}

// Rows [first, first + count) of `weight`; null if those from `second` on differ.
WeightRef CommonRows(const ProductWeight& weight, int64_t first, int64_t second, int64_t count) {
  auto common = std::make_shared<Weight>();
  common->shape = {count, weight.cols};
  std::vector<double> row(weight.cols), other(weight.cols);
  for (int64_t r = 0; r < count; ++r) {
    weight.CopyRow(first + r, row.data());
    weight.CopyRow(second + r, other.data());
    if (row != other) return nullptr;
    common->values.insert(common->values.end(), row.begin(), row.end());
  }
  return common;
}

// `reads`: of each root value.
std::optional<CommonProduct> FindCommonProduct(const Program& program, const Node& node,
                                               const std::vector<int>& producers, const std::vector<int>& reads) {
  if (!IsActivatedSum(node)) return std::nullopt;
  const Place u = PlaceOf(program, node.inputs[0]), v = PlaceOf(program, node.inputs[1]);
  const int64_t width = program.values[node.inputs[0]].width;
  const int producer = producers[u.root];
  if (width < kFewestEdgeResults || u.root != v.root || producer < 0 || reads[u.root] != 2) return std::nullopt;
  const Node& product = program.nodes[producer];
  if (product.kind != NodeKind::kLinear || product.output != u.root || product.weight->cols > kMostEdgeInputs)
    return std::nullopt;
  EpilogueSpec rest = product.epilogue;
  rest.bias = nullptr;
  const ValueId x = product.inputs[0];
  if (!rest.empty() || (x == kInputValue && program.sparse_input)) return std::nullopt;
  WeightRef weight = CommonRows(*product.weight, u.offset, v.offset, width);
  if (weight == nullptr) return std::nullopt;
  return CommonProduct{producer, x, std::move(weight), SummedBias(product.epilogue.bias, u.offset, v.offset, width)};
}

// How often nodes read each root value or a part of it, and once more if it is the program's output.
std::vector<int> CountReadsOfRoots(const Program& program) {
  const std::vector<int> uses = CountUses(program);
  std::vector<int> reads(uses.size(), 0);
  for (size_t v = 0; v < uses.size(); ++v) reads[PlaceOf(program, static_cast<ValueId>(v)).root] += uses[v];
  return reads;
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

// activation(W (x_j + x_i) + b).
ExpressionStep EdgeProductProgram(const Node& node, const CommonProduct& product) {
  ProgramMaker maker;
  const int64_t inputs = product.weight->shape[1];
  const int32_t source = maker.Rows(EdgeOp::kSource, inputs);
  const int32_t sum = maker.Sum(source, maker.Rows(EdgeOp::kTarget, inputs));
  return maker.Finish(maker.Activated(maker.Product(sum, product.weight, product.bias), node.message_activation), node);
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

Program MultiplyPerEdge(Program program, const ExpressionRefusal& why_not) {
  const std::vector<int> producers = FindProducers(program), reads = CountReadsOfRoots(program);
  std::vector<char> gone(program.nodes.size(), 0);
  for (Node& node : program.nodes) {
    const std::optional<CommonProduct> product = FindCommonProduct(program, node, producers, reads);
    if (!product.has_value()) continue;
    ExpressionStep step = EdgeProductProgram(node, *product);
    const std::string refusal = why_not(node, step);
    Node expressed = Expressed(node, std::move(step));
    expressed.inputs = {product->x, product->x};
    AddLayers(program.nodes[product->producer].layers, &expressed);
    program.Tell(absl::StrCat(LayerNames(program, expressed), ": the product of ", product->weight->shape[1], " and ",
                              product->weight->shape[0], " columns is computed per ",
                              refusal.empty() ? "edge" : absl::StrCat("node: ", refusal)));
    if (!refusal.empty()) continue;
    node = std::move(expressed);
    gone[product->producer] = 1;
  }
  RemoveNodes(gone, &program);
  return program;
}

}  // namespace vicinal::internal

// SPDX-License-Identifier: Apache-2.0
// Lowers each of a model's steps to a node. Steps without effect are dropped, EdgeConv's first product is computed per
// node instead of per edge, and BatchNorm becomes a scale and a shift per column, in double.
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/plan/node_kinds/node_traits.h"
#include "engine/plan/rewrite/fold.h"
#include "engine/plan/rewrite/rewrite.h"

namespace vicinal::internal {
namespace {

// Columns [begin, begin + count) of `a`. With `less` >= 0, minus as many columns from `less` on.
ProductWeightRef Columns(const ProductWeight& a, int64_t begin, int64_t count, int64_t less = -1) {
  auto columns = std::make_shared<Parameters>();
  columns->rows = a.rows;
  columns->cols = count;
  columns->values.reserve(a.rows * count);
  std::vector<double> row(a.cols);
  for (int64_t r = 0; r < a.rows; ++r) {
    a.CopyRow(r, row.data());
    for (int64_t c = 0; c < count; ++c) columns->values.push_back(row[begin + c] - (less < 0 ? 0.0 : row[less + c]));
  }
  return MadeWeight(std::move(columns));
}

// Turns steps into nodes of `program`. alias_ maps a value whose step was dropped to the value in its place.
class Lowering {
 public:
  Lowering(const Model& model, Program* program) : program_(program) {
    alias_.resize(model.num_values);
    for (int32_t v = 0; v < model.num_values; ++v) alias_[v] = v;
    program_->values.resize(model.num_values);
    program_->values[kInputValue].width = model.feature_count;
  }

  void Add(const Step& step) {
    step_ = &step;
    std::visit([&](const auto& op) { Lower(op); }, step.op);
  }

  ValueId Alias(ValueId value) const { return alias_[value]; }

 private:
  // A node of `kind` for the current step, with its inputs and its output declared.
  Node Begin(NodeKind kind) {
    Node node;
    node.kind = kind;
    for (ValueId input : step_->inputs) node.inputs.push_back(alias_[input]);
    node.output = step_->output;
    node.layers = {step_->layer};
    Value& value = program_->values[node.output];
    value.width = step_->width;
    value.per_graph = TraitsOf(kind).row_per_graph;
    for (ValueId input : node.inputs) value.per_graph = value.per_graph || program_->values[input].per_graph;
    return node;
  }
  // Adds a product to the current step's nodes.
  ValueId Product(ValueId x, ProductWeightRef weight, ParametersRef bias) {
    Node node;
    node.kind = NodeKind::kLinear;
    node.inputs = {x};
    node.layers = {step_->layer};
    const ValueId output = node.output = static_cast<ValueId>(program_->values.size());
    program_->values.push_back({weight->rows, program_->values[x].per_graph});
    node.weight = std::move(weight);
    node.epilogue.bias = std::move(bias);
    Push(std::move(node));
    return output;
  }
  // Adds a copy of `x`, as columns of the model's input cannot be viewed separately.
  ValueId CopyOf(ValueId x) {
    Node node;
    node.kind = NodeKind::kRow;
    node.inputs = {x};
    node.layers = {step_->layer};
    const ValueId output = node.output = static_cast<ValueId>(program_->values.size());
    program_->values.push_back({program_->values[x].width, program_->values[x].per_graph});
    Push(std::move(node));
    return output;
  }
  void Push(Node node) { program_->nodes.push_back(std::move(node)); }
  void Vanish() { alias_[step_->output] = alias_[step_->inputs[0]]; }

  void Lower(const LinearStep& op) {
    Node node = Begin(NodeKind::kLinear);
    node.weight = SentWeight(op.weight);
    node.epilogue.bias = ToParameters(op.bias);
    Push(std::move(node));
  }
  void Lower(const PropagateStep& op) {
    Node node = Begin(NodeKind::kPropagate);
    node.adjacency = op.adjacency;
    node.reduce = op.reduce;
    node.self_scale = op.self_scale;
    Push(std::move(node));
  }
  void Lower(const AttentionStep& op) {
    Node node = Begin(NodeKind::kAttention);
    node.adjacency = op.adjacency;
    node.attention = op;
    Push(std::move(node));
  }
  // W [x_i, x_j - x_i] = (Wa - Wb) x_i + Wb x_j for the halves Wa and Wb of the first layer's W: two products per node
  // instead of one per edge.
  void Lower(const EdgeConvStep& op) {
    Node node = Begin(NodeKind::kMessageReduce);
    std::vector<MessageLayer> layers = FoldMessageMlp(op.nn);
    const MessageLayer first = layers.front();
    const int64_t half = first.weight->cols / 2;
    const ValueId x = node.inputs[0];
    node.inputs = {Product(x, Columns(*first.weight, half, half), nullptr),
                   Product(x, Columns(*first.weight, 0, half, half), first.bias)};
    node.adjacency = op.adjacency;
    node.reduce = op.reduce;
    node.message_activation = first.activation;
    layers.erase(layers.begin());
    node.message_layers = std::move(layers);
    Push(std::move(node));
  }
  void Lower(const EdgeMessageStep& op) {
    Node node = Begin(NodeKind::kMessageReduce);
    node.adjacency = op.adjacency;
    node.reduce = op.reduce;
    if (op.softmax) node.softmax_temperature = op.temperature;
    node.edge_function = op.function;
    node.message_activation = op.activation;
    node.message_gate = op.gate;
    node.message_layers = FoldMessageMlp(op.nn);
    node.edge_term = {op.edge_width, op.edge_weight, op.edge_bias};
    node.edge_gaussians = op.gaussians;
    Push(std::move(node));
  }
  void Lower(const ExpressionStep& op) {
    Node node = Begin(op.program->over_edges ? NodeKind::kExpression : NodeKind::kRowExpression);
    node.adjacency = op.adjacency;
    node.expression = op;
    Push(std::move(node));
  }
  void Lower(const GateStep& op) {
    Node node = Begin(NodeKind::kGate);
    node.scale = ToParameters(op.weight);
    Push(std::move(node));
  }
  void Lower(const BiasStep& op) {
    Node node = Begin(NodeKind::kRow);
    node.epilogue.bias = ToParameters(op.bias);
    Push(std::move(node));
  }
  void Lower(const ActivationStep& op) {
    if (op.activation.kind == ActivationKind::kNone) return Vanish();
    Node node = Begin(NodeKind::kRow);
    node.epilogue.activation = op.activation;
    Push(std::move(node));
  }
  void Lower(const BatchNormStep& op) {
    Node node = Begin(NodeKind::kRow);
    Affine affine = ToAffine(op);
    node.scale = std::move(affine.scale);
    node.shift = std::move(affine.shift);
    Push(std::move(node));
  }
  void Lower(const LayerNormStep& op) {
    Node node = Begin(op.per_node ? NodeKind::kLayerNorm : NodeKind::kGraphNorm);
    node.scale = ToParameters(op.weight);
    node.shift = ToParameters(op.bias);
    node.eps = op.eps;
    Push(std::move(node));
  }
  void Lower(const AddStep& op) {
    Node node = Begin(NodeKind::kRow);
    node.epilogue.scale = op.a_scale;
    node.epilogue.residual_scale = op.b_scale;
    node.epilogue.residual = node.inputs[1];
    node.inputs.resize(1);
    Push(std::move(node));
  }
  void Lower(const MultiplyStep&) { Push(Begin(NodeKind::kMultiply)); }
  void Lower(const ScaleStep& op) {
    if (op.factor == 1.0 && op.weight == nullptr) return Vanish();
    Node node = Begin(NodeKind::kRow);
    node.scale = ToParameters(op.weight);
    node.epilogue.scale = op.factor;
    Push(std::move(node));
  }
  void Lower(const SliceStep& op) {
    Node node = Begin(NodeKind::kSlice);
    node.first_column = op.first;
    if (node.inputs[0] == kInputValue) node.inputs[0] = CopyOf(kInputValue);
    Push(std::move(node));
  }
  void Lower(const SoftmaxStep& op) { Push(Begin(op.logarithm ? NodeKind::kLogSoftmax : NodeKind::kSoftmax)); }
  void Lower(const ConcatStep&) {
    if (step_->inputs.size() == 1) return Vanish();
    Push(Begin(NodeKind::kConcat));
  }
  void Lower(const MaxStep&) {
    if (step_->inputs.size() == 1) return Vanish();
    const Node whole = Begin(NodeKind::kMax);
    // ((a max b) max c) max d
    ValueId left = whole.inputs[0];
    for (size_t i = 1; i < whole.inputs.size(); ++i) {
      Node node = whole;
      node.inputs = {left, whole.inputs[i]};
      if (i + 1 < whole.inputs.size()) {
        node.output = static_cast<ValueId>(program_->values.size());
        program_->values.push_back(program_->values[whole.output]);
      }
      left = node.output;
      Push(std::move(node));
    }
  }
  void Lower(const NormalizeStep&) { Push(Begin(NodeKind::kNormalize)); }
  void Lower(const ReadoutStep& op) {
    Node node = Begin(NodeKind::kReadout);
    node.reduce = op.reduce;
    Push(std::move(node));
  }
  void Lower(const MedianStep&) { Push(Begin(NodeKind::kMedian)); }
  void Lower(const SortStep&) { Push(Begin(NodeKind::kSort)); }
  void Lower(const ExpandStep&) {
    Node node = Begin(NodeKind::kExpand);
    program_->values[node.output].per_graph = false;
    Push(std::move(node));
  }

  Program* program_;
  const Step* step_ = nullptr;
  std::vector<ValueId> alias_;
};

}  // namespace

Program LowerModel(const Model& model, ValueId output, bool sparse_input) {
  VICINAL_CHECK(output >= 0 && output < model.num_values);
  Program program;
  program.sparse_input = sparse_input;
  for (const LayerInfo& layer : model.layers) program.layer_names.push_back(layer.name);
  Lowering lowering(model, &program);
  for (const Step& step : model.steps) lowering.Add(step);
  for (const Step& step : model.attention_steps) {
    if (step.output == output) lowering.Add(step);
  }
  program.output = lowering.Alias(output);
  return Schedule(std::move(program));
}

}  // namespace vicinal::internal

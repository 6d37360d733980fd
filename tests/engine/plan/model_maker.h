// SPDX-License-Identifier: Apache-2.0
// Models made step by step with random weights, models that are random altogether, and random graphs to run them on:
// for tests of the rewriter and of plans. A step of a new kind gets a method of ModelMaker and a case of AnyLayer; then
// the tests with random models cover it.
#ifndef VICINAL_TESTS_ENGINE_PLAN_MODEL_MAKER_H_
#define VICINAL_TESTS_ENGINE_PLAN_MODEL_MAKER_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/edge_list.h"
#include "engine/model/model.h"
#include "tests/engine/kernels/edge_values.h"

namespace vicinal::testing {

// Features that random models read of each edge.
inline constexpr int64_t kEdgeFeatures = 3;

// Each method adds one step, as a layer of its own called "l<step>", and returns its value.
class ModelMaker {
 public:
  explicit ModelMaker(int64_t feature_count, uint32_t seed = 1) : random_(seed) {
    model_.feature_count = feature_count;
    widths_ = {feature_count};
  }

  ValueId Linear(ValueId x, int64_t out, bool bias) {
    LinearStep step;
    step.weight = Draw({out, widths_[x]}, 1.0 / std::sqrt(static_cast<double>(widths_[x])));
    if (bias) step.bias = Draw({out}, 1.0);
    return Add(step, {x}, out);
  }
  ValueId Propagate(ValueId x, Reduce reduce, AdjacencySpec adjacency = {}, double self_scale = 0.0) {
    PropagateStep step;
    step.adjacency = adjacency;
    step.reduce = reduce;
    step.self_scale = self_scale;
    return Add(step, {x}, widths_[x]);
  }
  // GAT over `h`, of `heads` heads that lie in it side by side.
  ValueId Attention(ValueId h, int64_t heads, bool concat) {
    AttentionStep step;
    step.adjacency.loops = SelfLoops::kReplace;
    step.heads = heads;
    step.head_width = widths_[h] / heads;
    step.concat = concat;
    step.att_src = Draw({widths_[h]}, 0.5);
    step.att_dst = Draw({widths_[h]}, 0.5);
    return Add(step, {h}, concat ? widths_[h] : step.head_width);
  }
  ValueId AttentionV2(ValueId left, ValueId right, int64_t heads, bool concat) {
    AttentionStep step;
    step.kind = AttentionKind::kGatV2;
    step.adjacency.loops = SelfLoops::kReplace;
    step.heads = heads;
    step.head_width = widths_[left] / heads;
    step.concat = concat;
    step.att_src = Draw({widths_[left]}, 0.5);
    return Add(step, {left, right}, concat ? widths_[left] : step.head_width);
  }
  // TransformerConv's, over three values of one width.
  ValueId AttentionDot(ValueId values, ValueId queries, ValueId keys, int64_t heads, bool concat) {
    AttentionStep step;
    step.kind = AttentionKind::kDot;
    step.heads = heads;
    step.head_width = widths_[values] / heads;
    step.concat = concat;
    return Add(step, {values, queries, keys}, concat ? widths_[values] : step.head_width);
  }
  // The attention step `attention` now reads features of edges; `loops` are those of added ones.
  void WithEdgeFeatures(ValueId attention, LoopFeatures loops) {
    Step& step = *std::find_if(model_.steps.begin(), model_.steps.end(),
                               [&](const Step& one) { return one.output == attention; });
    auto& op = std::get<AttentionStep>(step.op);
    op.edge_width = model_.edge_feature_width = kEdgeFeatures;
    op.edge_weight = Draw({op.heads * op.head_width, kEdgeFeatures}, 0.7);
    if (op.kind == AttentionKind::kGat) op.att_edge = Draw({op.heads * op.head_width}, 0.5);
    op.loop_features = loops;
  }
  // GINEConv's sum; `product`: of W e + b, otherwise x has kEdgeFeatures columns.
  ValueId EdgeSum(ValueId x, Reduce reduce, bool product) {
    EdgeMessageStep step;
    step.activation.kind = ActivationKind::kRelu;
    step.reduce = reduce;
    step.edge_width = model_.edge_feature_width = kEdgeFeatures;
    if (product) step.edge_weight = Draw({widths_[x], kEdgeFeatures}, 0.7);
    if (product) step.edge_bias = Draw({widths_[x]}, 0.5);
    return Add(step, {x}, widths_[x]);
  }
  // Messages gate(z^1) * act(z^2) of `width` columns; `featured`: z has W e; `whole`: v has columns of both halves.
  ValueId GatedMessages(ValueId x, int64_t width, Reduce reduce, bool featured, bool whole) {
    const ValueId u = Linear(x, 2 * width, true), v = Linear(x, whole ? 2 * width : width, false);
    EdgeMessageStep step;
    step.reduce = reduce;
    step.function = EdgeFunction::kGated;
    step.gate.kind = ActivationKind::kSigmoid;
    if (whole) step.activation = {ActivationKind::kSoftplus, 20.0f};
    if (featured) step.edge_width = model_.edge_feature_width = kEdgeFeatures;
    if (featured) step.edge_weight = Draw({2 * width, kEdgeFeatures}, 0.7);
    return Add(step, {u, v}, width);
  }
  // GENConv's sum, weighted by a softmax.
  ValueId SoftmaxMessages(ValueId x, double temperature, bool featured) {
    EdgeMessageStep step;
    step.softmax = true;
    step.temperature = temperature;
    step.activation = {ActivationKind::kClamp, 1e-7f, std::numeric_limits<float>::infinity()};
    if (featured) step.edge_width = model_.edge_feature_width = kEdgeFeatures;
    if (featured) step.edge_weight = Draw({widths_[x], kEdgeFeatures}, 0.7);
    return Add(step, {x}, widths_[x]);
  }
  // Mixtures by features of edges, after a network with a hidden layer if `hidden` > 0; `more`: with a part of its own.
  ValueId MixedMessages(ValueId x, int64_t width, Reduce reduce, int64_t hidden, bool more) {
    EdgeMessageStep step;
    step.reduce = reduce;
    step.function = EdgeFunction::kMixture;
    step.edge_width = model_.edge_feature_width = kEdgeFeatures;
    const int64_t parts = (hidden > 0 ? hidden : kEdgeFeatures) + (more ? 1 : 0);
    if (hidden > 0) {
      step.nn.push_back(LinearStep{Draw({hidden, kEdgeFeatures}, 0.5), Draw({hidden}, 0.5)});
      step.nn.push_back(ActivationStep{{ActivationKind::kTanh}});
    }
    return Add(step, {Linear(x, parts * width, true)}, width);
  }
  // Gaussians of features of edges: they mix `count` parts, or are multiplied with all of x before a product (`outer`).
  ValueId GaussianMessages(ValueId x, int64_t width, Reduce reduce, int64_t count, bool outer) {
    EdgeMessageStep step;
    step.reduce = reduce;
    step.edge_width = model_.edge_feature_width = kEdgeFeatures;
    step.gaussians.mean = Draw({count, kEdgeFeatures}, 0.5);
    auto scale = std::make_shared<Weight>(*Draw({count, kEdgeFeatures}, 0.7));
    for (float& value : scale->values) value = -std::abs(value);
    step.gaussians.scale = scale;
    step.function = outer ? EdgeFunction::kOuter : EdgeFunction::kMixture;
    if (!outer) return Add(step, {Linear(x, count * width, true)}, width);
    return Linear(Add(step, {x}, count * widths_[x]), width, false);
  }
  // An expression over edges: a softmax over `heads`, and the reductions `reduces` of what both ends, features and
  // weights give. `weighted`: with the weights that the adjacency has.
  ValueId Expression(ValueId x, int64_t width, int64_t heads, const std::vector<EdgeReduce>& reduces,
                     const AdjacencySpec& adjacency) {
    const ValueId u = Linear(x, width, true), v = Linear(x, width, false), g = Linear(x, 1, true);
    EdgeProgram program;
    program.sources = 2;
    program.targets = 2;
    program.edge_width = model_.edge_feature_width = kEdgeFeatures;
    const auto put = [&](EdgeValue value) {
      program.values.push_back(std::move(value));
      return static_cast<int32_t>(program.values.size()) - 1;
    };
    const auto add = [&](EdgeOp op, int64_t columns, int32_t a = -1, int32_t b = -1, int32_t index = -1,
                         int64_t first = 0) { return put(ValueOf(op, columns, a, b, index, first)); };
    const int32_t source = add(EdgeOp::kSource, width, -1, -1, 0), target = add(EdgeOp::kTarget, width, -1, -1, 0);
    const int32_t scale = add(EdgeOp::kSource, 1, -1, -1, 1), shift = add(EdgeOp::kTarget, 1, -1, -1, 1);
    const int32_t features = add(EdgeOp::kFeatures, kEdgeFeatures), weight = add(EdgeOp::kWeight, 1);
    EdgeValue product = ValueOf(EdgeOp::kLinear, width, features, -1, 0);
    product.bias = 1;
    const int32_t term = put(product), sum = add(EdgeOp::kAdd, width, add(EdgeOp::kAdd, width, source, target), term);
    EdgeValue act = ValueOf(EdgeOp::kActivation, width, sum);
    act.activation = {ActivationKind::kTanh};
    const int32_t active = put(act);
    const int32_t score = add(EdgeOp::kDot, heads, active, add(EdgeOp::kRow, width, -1, -1, 2));
    EdgeValue joined = ValueOf(EdgeOp::kConcat, width + 5);
    joined.parts = {active, scale, add(EdgeOp::kSlice, 3, active, -1, -1, 1), add(EdgeOp::kMultiply, 1, weight, shift)};
    const int32_t narrow = add(EdgeOp::kLinear, 2, put(joined), -1, 3);
    const int32_t spread = add(EdgeOp::kRepeat, width, add(EdgeOp::kSum, heads, active));
    const int32_t most = add(EdgeOp::kMax, width, add(EdgeOp::kMin, width, spread, source), target);
    const int32_t message = add(EdgeOp::kMultiply, width, most, add(EdgeOp::kSlice, 1, narrow, -1, -1, 1));
    program.results = {{EdgeReduce::kSoftmax, source, score}};
    for (const EdgeReduce reduce : reduces) program.results.push_back({reduce, message, score});
    ExpressionStep step;
    step.adjacency = adjacency;
    step.edge_width = kEdgeFeatures;
    const double spread_of = 0.5 / std::sqrt(static_cast<double>(width));
    step.parameters = {Draw({width, kEdgeFeatures}, 0.5), Draw({width}, 0.5), Draw({width}, 2 * spread_of),
                       Draw({2, width + 5}, spread_of)};
    const int64_t out = program.width();
    step.program = std::make_shared<const EdgeProgram>(std::move(program));
    return Add(std::move(step), {u, g, v, g}, out);
  }
  // A message of the target and the edge's weight alone, summed: nothing of the source is read.
  ValueId TargetMessages(ValueId x) {
    const int64_t width = widths_[x];
    EdgeProgram program;
    program.targets = 1;
    program.values = {ValueOf(EdgeOp::kTarget, width, -1, -1, 0), ValueOf(EdgeOp::kWeight, 1),
                      ValueOf(EdgeOp::kMultiply, width, 0, 1)};
    program.results = {{EdgeReduce::kSum, 2, -1}};
    ExpressionStep step;
    step.program = std::make_shared<const EdgeProgram>(std::move(program));
    return Add(std::move(step), {x}, width);
  }
  // An expression over rows: log(|a| + 1) * sigmoid(b) / 2 for values of one width, b perhaps of a single column.
  ValueId RowExpression(ValueId a, ValueId b) {
    const int64_t width = widths_[a];
    EdgeProgram program;
    program.over_edges = false;
    program.targets = 2;
    program.values = {ValueOf(EdgeOp::kTarget, width, -1, -1, 0),
                      ValueOf(EdgeOp::kAbs, width, 0),
                      ValueOf(EdgeOp::kNumber, 1),
                      ValueOf(EdgeOp::kAdd, width, 1, 2),
                      ValueOf(EdgeOp::kLog, width, 3),
                      ValueOf(EdgeOp::kTarget, widths_[b], -1, -1, 1),
                      ValueOf(EdgeOp::kActivation, widths_[b], 5),
                      ValueOf(EdgeOp::kMultiply, width, 4, 6),
                      ValueOf(EdgeOp::kNumber, 1),
                      ValueOf(EdgeOp::kDivide, width, 7, 8)};
    program.values[2].number = 1.0f;
    program.values[6].activation = {ActivationKind::kSigmoid};
    program.values[8].number = 2.0f;
    program.results = {{EdgeReduce::kSum, 9, -1}};
    ExpressionStep step;
    step.program = std::make_shared<const EdgeProgram>(std::move(program));
    return Add(std::move(step), {a, b}, width);
  }
  ValueId Gate(ValueId out, ValueId skip) {
    return Add(GateStep{Draw({1, 3 * widths_[out]}, 0.5)}, {out, skip}, widths_[out]);
  }
  // EdgeConv with a product for each of `widths`; `norms` says what comes after a product: 0 an activation, 1 a
  // BatchNorm and an activation, 2 an activation and a BatchNorm, 3 nothing.
  ValueId EdgeConv(ValueId x, Reduce reduce, const std::vector<int64_t>& widths, const std::vector<int>& norms) {
    EdgeConvStep step;
    step.reduce = reduce;
    int64_t in = 2 * widths_[x];
    for (size_t i = 0; i < widths.size(); ++i) {
      LinearStep linear;
      linear.weight = Draw({widths[i], in}, 1.0 / std::sqrt(static_cast<double>(in)));
      if (i % 2 == 0) linear.bias = Draw({widths[i]}, 1.0);
      step.nn.push_back(linear);
      if (norms[i] == 1) step.nn.push_back(DrawBatchNorm(widths[i]));
      if (norms[i] != 3) step.nn.push_back(ActivationStep{{ActivationKind::kLeakyRelu, 0.2f}});
      if (norms[i] == 2) step.nn.push_back(DrawBatchNorm(widths[i]));
      in = widths[i];
    }
    return Add(step, {x}, in);
  }
  // tanh(u_j + v_i), or tanh(u_j) with v < 0, and a product for each of `widths`, with a relu between two. `featured`:
  // the first sum has the edge's features, too, which are multiplied unless u has as many columns.
  ValueId MessageNetwork(ValueId u, ValueId v, Reduce reduce, const std::vector<int64_t>& widths, bool featured) {
    EdgeMessageStep step;
    if (featured) step.edge_width = model_.edge_feature_width = kEdgeFeatures;
    if (featured && widths_[u] != kEdgeFeatures) {
      step.edge_weight = Draw({widths_[u], kEdgeFeatures}, 0.7);
      step.edge_bias = Draw({widths_[u]}, 0.5);
    }
    step.reduce = reduce;
    step.activation = {ActivationKind::kTanh};
    int64_t in = widths_[u];
    for (const int64_t width : widths) {
      if (!step.nn.empty()) step.nn.push_back(ActivationStep{{ActivationKind::kRelu}});
      step.nn.push_back(LinearStep{Draw({width, in}, 1.0 / std::sqrt(static_cast<double>(in))), Draw({width}, 1.0)});
      in = width;
    }
    std::vector<ValueId> inputs = {u};
    if (v >= 0) inputs.push_back(v);
    return Add(std::move(step), std::move(inputs), in);
  }
  // relu(W x_j + b + W x_i + c).
  ValueId PairMessages(ValueId x, int64_t width, Reduce reduce) {
    const LinearStep of_source{Draw({width, widths_[x]}, 1.0 / std::sqrt(static_cast<double>(widths_[x]))),
                               Draw({width}, 0.5)};
    const LinearStep of_target{of_source.weight, Draw({width}, 0.5)};
    EdgeMessageStep step;
    step.reduce = reduce;
    step.activation = {ActivationKind::kRelu};
    const ValueId u = Add(of_source, {x}, width), v = Add(of_target, {x}, width);
    return Add(std::move(step), {u, v}, width);
  }
  ValueId Bias(ValueId x) { return Add(BiasStep{Draw({widths_[x]}, 1.0)}, {x}, widths_[x]); }
  ValueId Activate(ValueId x, ActivationKind kind, float slope = 0.1f) {
    return Add(ActivationStep{{kind, slope}}, {x}, widths_[x]);
  }
  ValueId BatchNorm(ValueId x) { return Add(DrawBatchNorm(widths_[x]), {x}, widths_[x]); }
  ValueId LayerNorm(ValueId x, bool per_node) {
    LayerNormStep step;
    step.per_node = per_node;
    step.weight = Draw({widths_[x]}, 0.5, 1.0);
    step.bias = Draw({widths_[x]}, 0.5);
    return Add(step, {x}, widths_[x]);
  }
  ValueId Sum(ValueId a, ValueId b) { return Add(AddStep{}, {a, b}, widths_[a]); }
  // a_scale * a + b_scale * b.
  ValueId Mix(ValueId a, double a_scale, ValueId b, double b_scale) {
    return Add(AddStep{a_scale, b_scale}, {a, b}, widths_[a]);
  }
  ValueId Multiply(ValueId a, ValueId b) { return Add(MultiplyStep{}, {a, b}, widths_[a]); }
  // factor * x, `each`: also by a weight per column.
  ValueId Scale(ValueId x, double factor, bool each) {
    return Add(ScaleStep{factor, each ? Draw({widths_[x]}, 1.0) : nullptr}, {x}, widths_[x]);
  }
  ValueId Slice(ValueId x, int64_t first, int64_t width) { return Add(SliceStep{first}, {x}, width); }
  ValueId Softmax(ValueId x, bool logarithm) { return Add(SoftmaxStep{logarithm}, {x}, widths_[x]); }
  ValueId Max(std::vector<ValueId> inputs) {
    const int64_t width = widths_[inputs[0]];
    return Add(MaxStep{}, std::move(inputs), width);
  }
  ValueId Concat(std::vector<ValueId> inputs) {
    int64_t width = 0;
    for (ValueId input : inputs) width += widths_[input];
    return Add(ConcatStep{}, std::move(inputs), width);
  }
  ValueId Normalize(ValueId x) { return Add(NormalizeStep{}, {x}, widths_[x]); }
  ValueId Readout(ValueId x, Reduce reduce) {
    model_.graph_level = true;
    return Add(ReadoutStep{reduce}, {x}, widths_[x]);
  }

  ValueId Median(ValueId x) {
    model_.graph_level = true;
    return Add(MedianStep{}, {x}, widths_[x]);
  }
  ValueId Sort(ValueId x, int64_t rows) {
    model_.graph_level = true;
    return Add(SortStep{}, {x}, rows * widths_[x]);
  }

  // For each node the mean of its graph.
  ValueId MeanOfGraph(ValueId x) {
    return Add(ExpandStep{}, {Add(ReadoutStep{Reduce::kMean}, {x}, widths_[x])}, widths_[x]);
  }

  int64_t width(ValueId value) const { return widths_[value]; }
  std::shared_ptr<const Model> Done(ValueId logits) {
    model_.class_count = widths_[logits];
    model_.outputs = {{"logits", logits, widths_[logits]}};
    return std::make_shared<const Model>(model_);
  }
  std::mt19937& random() { return random_; }

 private:
  ValueId Add(StepOp op, std::vector<ValueId> inputs, int64_t width) {
    Step step;
    step.op = std::move(op);
    step.inputs = std::move(inputs);
    step.output = model_.num_values++;
    step.width = width;
    step.layer = static_cast<int32_t>(model_.layers.size());
    widths_.push_back(width);
    ModelLayer layer;
    layer.name = "l" + std::to_string(model_.steps.size());
    model_.layers.push_back(layer);
    model_.steps.push_back(std::move(step));
    return widths_.size() - 1;
  }
  BatchNormStep DrawBatchNorm(int64_t width) {
    BatchNormStep step;
    step.mean = Draw({width}, 0.5);
    step.var = Draw({width}, 0.4, 1.0);
    step.weight = Draw({width}, 0.5, 1.0);
    step.bias = Draw({width}, 0.5);
    return step;
  }
  WeightRef Draw(std::vector<int64_t> shape, double spread, double mean = 0.0) {
    auto weight = std::make_shared<Weight>();
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    std::uniform_real_distribution<float> draw(static_cast<float>(mean - spread), static_cast<float>(mean + spread));
    for (int64_t i = 0; i < count; ++i) weight->values.push_back(draw(random_));
    weight->shape = std::move(shape);
    return weight;
  }

  std::mt19937 random_;
  Model model_;
  std::vector<int64_t> widths_;
};

// Loops, duplicates, isolated nodes and nodes without in-edges all occur.
inline EdgeList RandomEdges(int64_t nodes, int64_t edges, bool weighted, std::mt19937& random) {
  EdgeList list;
  list.num_nodes = nodes;
  const int64_t linked = std::max<int64_t>(1, nodes * 4 / 5);  // the rest is isolated
  for (int64_t e = 0; e < edges; ++e) {
    if (e > 0 && random() % 10 == 0) {
      list.source.push_back(list.source.back());
      list.target.push_back(list.target.back());
    } else {
      list.source.push_back(static_cast<NodeId>(random() % linked));
      list.target.push_back(random() % 8 == 0 ? list.source.back() : static_cast<NodeId>(random() % linked));
    }
    if (weighted) list.weight.push_back(0.25f + static_cast<float>(random() % 1000) / 500.0f);
  }
  return list;
}

inline ActivationKind AnyActivation(std::mt19937& random) {
  // Continuous ones: a jump would turn a rounding into a difference.
  constexpr ActivationKind kKinds[] = {ActivationKind::kNone, ActivationKind::kRelu,    ActivationKind::kElu,
                                       ActivationKind::kTanh, ActivationKind::kSigmoid, ActivationKind::kLeakyRelu,
                                       ActivationKind::kSilu, ActivationKind::kGelu,    ActivationKind::kMish};
  return kKinds[random() % 9];
}

inline Reduce AnyReduce(std::mt19937& random) { return static_cast<Reduce>(random() % 4); }

// Loops of another weight than 1 are only added where edges have weights (GCNConv's `improved`).
inline AdjacencySpec AnyAdjacency(bool weighted, std::mt19937& random) {
  AdjacencySpec spec;
  spec.loops = static_cast<SelfLoops>(random() % 3);
  constexpr EdgeWeighting kWeightings[] = {
      EdgeWeighting::kNone,          EdgeWeighting::kGcnOnes,        EdgeWeighting::kMeanOnes,
      EdgeWeighting::kSourceSymOnes, EdgeWeighting::kSourceMeanOnes, EdgeWeighting::kGcnSent,
      EdgeWeighting::kSent,          EdgeWeighting::kSourceSymSent,  EdgeWeighting::kSourceMeanSent};
  spec.weighting = kWeightings[random() % (weighted ? 9 : 5)];
  const bool sent = ReadsEdgeWeights(spec.weighting) || spec.weighting == EdgeWeighting::kMeanOnes;
  if (sent && spec.loops == SelfLoops::kAddRemaining && random() % 2) spec.loop_weight = 2.0f;
  std::mt19937 aside = random;  // what is drawn next stays what it is
  spec.transposed = aside() % 5 == 0;
  return spec;
}

// One layer of a kind drawn at random, on `x`.
inline ValueId AnyLayer(ModelMaker& maker, ValueId x, bool weighted) {
  std::mt19937& random = maker.random();
  const int64_t out = 4 * (1 + static_cast<int64_t>(random() % 5));
  switch (random() % 23) {
    case 0:  // GCNConv
      return maker.Bias(maker.Propagate(maker.Linear(x, out, false), Reduce::kSum, AnyAdjacency(weighted, random)));
    case 1: {  // SAGEConv
      const ValueId left = maker.Linear(maker.Propagate(x, AnyReduce(random)), out, true);
      const ValueId sum = maker.Sum(left, maker.Linear(x, out, false));
      return random() % 2 ? maker.Normalize(sum) : sum;
    }
    case 2: {  // GINConv
      const ValueId sum = maker.Propagate(x, Reduce::kSum, {}, 1.3);
      const ValueId hidden = maker.Activate(maker.BatchNorm(maker.Linear(sum, out, true)), ActivationKind::kRelu);
      return maker.Linear(hidden, out, true);
    }
    case 3:
      return maker.Bias(maker.Attention(maker.Linear(x, out, false), 2, random() % 2 == 0));
    case 4:
      return maker.AttentionV2(maker.Linear(x, out, true), maker.Linear(x, out, true), 2, random() % 2 == 0);
    case 5:
      return maker.LayerNorm(maker.Linear(x, out, true), random() % 2 == 0);
    case 6: {  // residual around a product
      const ValueId inner = maker.Activate(maker.Linear(x, maker.width(x), true), AnyActivation(random));
      return maker.Sum(inner, x);
    }
    case 7: {  // jumping knowledge
      const ValueId a = maker.Linear(x, out, true),
                    b = maker.Activate(maker.Linear(a, out, true), ActivationKind::kRelu);
      return random() % 2 ? maker.Max({a, b, a}) : maker.Concat({a, b, x});
    }
    case 8: {  // TransformerConv
      const bool concat = random() % 2 == 0;
      const ValueId key = maker.Linear(x, out, true), query = maker.Linear(x, out, true);
      const ValueId value = maker.AttentionDot(maker.Linear(x, out, true), query, key, 2, concat);
      const ValueId skip = maker.Linear(x, maker.width(value), true);
      return random() % 2 ? maker.Gate(value, skip) : maker.Sum(value, skip);
    }
    case 9: {  // EdgeConv
      std::vector<int64_t> widths;
      std::vector<int> norms;
      for (uint32_t layers = 1 + random() % 3; layers > 0; --layers) {
        widths.push_back(3 + static_cast<int64_t>(random() % 20));
        norms.push_back(static_cast<int>(random() % 4));
      }
      return maker.EdgeConv(x, AnyReduce(random), widths, norms);
    }
    case 10: {  // APPNP
      const AdjacencySpec adjacency = AnyAdjacency(weighted, random);
      const ValueId start = maker.Linear(x, out, true);
      ValueId value = start;
      for (int k = 0; k < 3; ++k) value = maker.Mix(maker.Propagate(value, Reduce::kSum, adjacency), 0.8, start, 0.2);
      return value;
    }
    case 11: {  // SGConv
      const AdjacencySpec adjacency = AnyAdjacency(weighted, random);
      return maker.Linear(maker.Propagate(maker.Propagate(x, Reduce::kSum, adjacency), Reduce::kSum, adjacency), out,
                          true);
    }
    case 12: {  // gated halves, beside each other
      const ValueId h = maker.Linear(x, 2 * out, true);
      const ValueId gate = maker.Activate(maker.Slice(h, out, out), ActivationKind::kSigmoid);
      const ValueId gated = maker.Multiply(maker.Slice(h, 0, out), gate);
      return random() % 2 ? gated : maker.Concat({gated, maker.Scale(gate, -1.5, random() % 2 == 0)});
    }
    case 15: {  // GINEConv
      const bool product = random() % 2 == 0;
      const ValueId h = product ? x : maker.Linear(x, kEdgeFeatures, true);
      return maker.Linear(maker.Mix(maker.EdgeSum(h, AnyReduce(random), product), 1.0, h, 1.3), out, true);
    }
    case 16: {  // attention with features of edges
      const bool concat = random() % 2 == 0;
      const ValueId h = maker.Linear(x, out, true), other = maker.Linear(x, out, true);
      const uint32_t kind = random() % 3;
      const ValueId value = kind == 0   ? maker.Attention(h, 2, concat)
                            : kind == 1 ? maker.AttentionV2(h, other, 2, concat)
                                        : maker.AttentionDot(h, other, maker.Linear(x, out, true), 4, concat);
      maker.WithEdgeFeatures(value, random() % 2 == 0 ? LoopFeatures() : LoopFeatures{false, 0.7f});
      return maker.Bias(value);
    }
    case 17: {  // CGConv, ResGatedGraphConv
      const bool featured = random() % 3 != 0, whole = random() % 2 == 0;
      return maker.Bias(maker.GatedMessages(x, out, AnyReduce(random), featured, whole));
    }
    case 18: {  // GENConv
      const ValueId h = maker.Linear(x, out, true);
      const ValueId sum = maker.SoftmaxMessages(h, random() % 2 == 0 ? 1.0 : -0.6, random() % 3 != 0);
      return maker.Linear(maker.Sum(sum, h), out, true);
    }
    case 19: {  // NNConv, GMMConv
      const uint32_t kind = random() % 5;
      const Reduce reduce = AnyReduce(random);
      const bool more = random() % 2 == 0, sums = reduce == Reduce::kSum || reduce == Reduce::kMean;
      const int64_t gaussians = 1 + static_cast<int64_t>(random() % 10);
      const ValueId mixed = kind < 3 ? maker.MixedMessages(x, out, reduce, 4 * kind, more)
                                     : maker.GaussianMessages(x, out, reduce, gaussians, kind == 4 && sums);
      return maker.Bias(maker.Sum(mixed, maker.Linear(x, out, false)));
    }
    case 20: {  // MessagePassing
      AdjacencySpec adjacency = AnyAdjacency(weighted, random);
      if (adjacency.loops == SelfLoops::kAddRemaining) adjacency.loops = SelfLoops::kAsSent;  // has no features
      adjacency.transposed = false;  // features are those of in-edges
      std::vector<EdgeReduce> reduces;
      for (uint32_t count = random() % 4; count > 0; --count) reduces.push_back(static_cast<EdgeReduce>(random() % 7));
      return maker.Linear(maker.Expression(x, out, random() % 2 == 0 ? 2 : 1, reduces, adjacency), out, true);
    }
    case 21: {  // an update that no other step computes
      const ValueId h = maker.Linear(x, out, true);
      return maker.Sum(h, maker.RowExpression(h, maker.Linear(x, random() % 2 == 0 ? 1 : out, true)));
    }
    case 14: {  // differences from the graph's mean
      const ValueId h = maker.Linear(x, out, true);
      const ValueId centred = maker.Mix(h, 1.0, maker.MeanOfGraph(h), -1.0);
      return random() % 2 ? centred : maker.Multiply(centred, maker.MeanOfGraph(maker.Multiply(centred, centred)));
    }
    case 13: {  // a softmax that weighs columns of the input itself
      const int64_t width = std::min<int64_t>(out, maker.width(x));
      const ValueId weights = maker.Softmax(maker.Linear(x, width, true), random() % 2 == 0);
      return maker.Multiply(maker.Slice(x, maker.width(x) - width, width), weights);
    }
    default:
      return maker.Propagate(x, AnyReduce(random), AnyAdjacency(weighted, random));
  }
}

// One to three layers drawn at random, and a product. `pooled`: of graphs, not of nodes.
inline std::shared_ptr<const Model> AnyModel(int64_t features, bool weighted, bool pooled, uint32_t seed) {
  ModelMaker maker(features, seed);
  ValueId x = 0;
  const int layers = 1 + static_cast<int>(maker.random()() % 3);
  for (int i = 0; i < layers; ++i) {
    x = maker.Activate(AnyLayer(maker, x, weighted), AnyActivation(maker.random()));
    if (maker.random()() % 4 == 0) x = maker.BatchNorm(x);
  }
  if (pooled) {
    const uint32_t kind = maker.random()() % 6;
    x = kind == 0 ? maker.Median(x) : maker.Readout(x, AnyReduce(maker.random()));
  }
  return maker.Done(maker.Linear(x, 5, true));
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_PLAN_MODEL_MAKER_H_

// SPDX-License-Identifier: Apache-2.0
// Models made step by step, with weights drawn at random, for tests of the rewriter and of plans; and random graphs to
// run them on.
#ifndef VICINAL_TESTS_ENGINE_PLAN_MODEL_MAKER_H_
#define VICINAL_TESTS_ENGINE_PLAN_MODEL_MAKER_H_

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/edge_list.h"
#include "engine/model/model.h"

namespace vicinal::testing {

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
    LayerInfo layer;
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

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_PLAN_MODEL_MAKER_H_

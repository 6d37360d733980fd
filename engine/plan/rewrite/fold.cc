// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/rewrite/fold.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

namespace vicinal::internal {
namespace {

// Collects dense layers, operation by operation. A layer is open until it has an activation.
class MessageMlpFolder {
 public:
  void operator()(const LinearStep& step) {
    ProductWeightRef weight = SentWeight(step.weight);
    ParametersRef bias = ToParameters(step.bias);
    if (open_ && diagonal_) {
      bias = AfterAffine(*weight, bias, *layers_.back().bias);
      weight = MadeWeight(ScaledColumns(*weight, *layers_.back().weight));
      layers_.pop_back();
    }
    Open(std::move(weight), std::move(bias), false);
  }
  void operator()(const BatchNormStep& step) {
    const Affine affine = ToAffine(step);
    if (!open_) return Open(MadeWeight(Diagonal(*affine.scale)), affine.shift, true);
    MessageLayer& layer = layers_.back();
    auto bias = std::make_shared<Parameters>(*affine.shift);
    for (int64_t r = 0; layer.bias != nullptr && r < layer.weight->rows; ++r) {
      bias->values[r] += layer.bias->values[r] * affine.scale->values[r];
    }
    layer.weight = ScaledRows(*layer.weight, affine.scale->values);
    layer.bias = std::move(bias);
  }
  void operator()(const ActivationStep& step) {
    if (step.activation.kind == ActivationKind::kNone) return;
    if (!open_) OpenIdentity();
    layers_.back().activation = step.activation;
    open_ = false;
  }

  std::vector<MessageLayer> Take() { return std::move(layers_); }

 private:
  void Open(ProductWeightRef weight, ParametersRef bias, bool diagonal) {
    layers_.push_back({std::move(weight), std::move(bias), {}});
    open_ = true;
    diagonal_ = diagonal;
  }
  // Opens a layer between two consecutive activations.
  void OpenIdentity() {
    Parameters ones;
    ones.rows = 1;
    ones.cols = layers_.back().weight->rows;
    ones.values.assign(ones.cols, 1.0);
    Open(MadeWeight(Diagonal(ones)), nullptr, true);
  }

  static ParametersRef Diagonal(const Parameters& scale) {
    auto diagonal = std::make_shared<Parameters>();
    diagonal->rows = diagonal->cols = scale.cols;
    diagonal->values.assign(scale.cols * scale.cols, 0.0);
    for (int64_t i = 0; i < scale.cols; ++i) diagonal->values[i * scale.cols + i] = scale.values[i];
    return diagonal;
  }
  // W D for a diagonal D.
  static ParametersRef ScaledColumns(const ProductWeight& weight, const ProductWeight& diagonal) {
    auto scaled = std::make_shared<Parameters>();
    scaled->rows = weight.rows;
    scaled->cols = weight.cols;
    scaled->values.resize(weight.rows * weight.cols);
    for (int64_t r = 0; r < weight.rows; ++r) weight.CopyRow(r, scaled->values.data() + r * weight.cols);
    std::vector<double> row(weight.cols);
    for (int64_t c = 0; c < weight.cols; ++c) {
      diagonal.CopyRow(c, row.data());
      for (int64_t r = 0; r < weight.rows; ++r) scaled->values[r * weight.cols + c] *= row[c];
    }
    return scaled;
  }
  // W shift + b.
  static ParametersRef AfterAffine(const ProductWeight& weight, const ParametersRef& bias, const Parameters& shift) {
    auto sum = std::make_shared<Parameters>();
    sum->rows = 1;
    sum->cols = weight.rows;
    std::vector<double> row(weight.cols);
    for (int64_t r = 0; r < weight.rows; ++r) {
      weight.CopyRow(r, row.data());
      double value = bias != nullptr ? bias->values[r] : 0.0;
      for (int64_t c = 0; c < weight.cols; ++c) value += row[c] * shift.values[c];
      sum->values.push_back(value);
    }
    return sum;
  }

  std::vector<MessageLayer> layers_;
  bool open_ = false;
  bool diagonal_ = false;
};

// Bounds the bytes of the matrices that lowering and folding compute from weights, in double. Only message MLPs and
// attention scores are matrices; RewriteBytesBound counts the vectors.
class MadeBytes {
 public:
  // `widest`: maximum columns of the model's products, as attention scores may be computed for any of them.
  explicit MadeBytes(int64_t widest) : widest_(widest) {}

  void operator()(const EdgeConvStep& step) { AddMlp(step.nn); }
  void operator()(const EdgeMessageStep& step) { AddMlp(step.nn); }
  void operator()(const AttentionStep& step) {
    if (step.kind == AttentionKind::kGat) Add(2 * step.heads * std::max(widest_, step.heads * step.head_width));
  }
  template <class Other>
  void operator()(const Other&) {}

  void Add(int64_t numbers) { bytes_ += numbers * static_cast<int64_t>(sizeof(double)); }
  int64_t bytes() const { return bytes_; }

 private:
  void AddMlp(const std::vector<EdgeConvOp>& nn) {
    for (const EdgeConvOp& op : nn) {
      // Also rounded, where the network becomes an expression.
      if (const auto* linear = std::get_if<LinearStep>(&op)) Add(3 * Elements(linear->weight));
      if (const auto* norm = std::get_if<BatchNormStep>(&op)) Add(Elements(norm->mean) * (Elements(norm->mean) + 4));
    }
  }
  static int64_t Elements(const WeightRef& weight) { return static_cast<int64_t>(weight->values.size()); }

  const int64_t widest_;
  int64_t bytes_ = 0;
};

}  // namespace

int64_t RewriteBytesBound(const Model& model) {
  // During a pass, a program and the next one exist, in growing vectors, with the lists of each node.
  constexpr int64_t kNodeBytes = 3 * static_cast<int64_t>(sizeof(Node) + sizeof(Value)) + 192;
  // Scale, shift, bias, their previous values, and the factors of rows.
  constexpr int64_t kVectors = 6;
  int64_t nodes = 2, widest = model.feature_count;
  for (const Step& step : model.steps) {
    // One node per step. An aggregation has another one for rounding its rows, its scores or the first product of its
    // message MLP; a maximum has one per input; a slice may copy the input.
    nodes += std::holds_alternative<MaxStep>(step.op)          ? static_cast<int64_t>(step.inputs.size())
             : LocalityOf(step.op) == Locality::kNeighbourhood ? 3
             : std::holds_alternative<SliceStep>(step.op)      ? 2
                                                               : 1;
    if (const auto* linear = std::get_if<LinearStep>(&step.op)) widest = std::max(widest, linear->weight->shape.back());
  }
  nodes += static_cast<int64_t>(2 * model.attention_steps.size());  // a concatenation may copy an input
  MadeBytes made(widest);
  for (const Step& step : model.steps) {
    made.Add(kVectors * step.width);
    std::visit(made, step.op);
  }
  for (const Step& step : model.attention_steps) made.Add(kVectors * step.width);
  return nodes * kNodeBytes + made.bytes();
}

ParametersRef ToParameters(const WeightRef& weight) {
  if (weight == nullptr) return nullptr;
  auto parameters = std::make_shared<Parameters>();
  const bool matrix = weight->shape.size() == 2;
  parameters->rows = matrix ? weight->shape[0] : 1;
  parameters->cols = matrix ? weight->shape[1] : static_cast<int64_t>(weight->values.size());
  parameters->values.assign(weight->values.begin(), weight->values.end());
  return parameters;
}

Affine ToAffine(const BatchNormStep& norm) {
  auto scale = std::make_shared<Parameters>();
  auto shift = std::make_shared<Parameters>();
  const size_t width = norm.mean->values.size();
  for (size_t i = 0; i < width; ++i) {
    const double weight = norm.weight != nullptr ? norm.weight->values[i] : 1.0;
    scale->values.push_back(weight / std::sqrt(static_cast<double>(norm.var->values[i]) + norm.eps));
    shift->values.push_back((norm.bias != nullptr ? norm.bias->values[i] : 0.0) -
                            norm.mean->values[i] * scale->values.back());
  }
  scale->rows = shift->rows = 1;
  scale->cols = shift->cols = static_cast<int64_t>(width);
  return {std::move(scale), std::move(shift)};
}

std::vector<MessageLayer> FoldMessageMlp(const std::vector<EdgeConvOp>& nn) {
  MessageMlpFolder folder;
  for (const EdgeConvOp& op : nn) std::visit(folder, op);
  return folder.Take();
}

}  // namespace vicinal::internal

// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/fold.h"

#include <cmath>
#include <utility>

namespace vicinal::internal {
namespace {

// Dense layers while operations are taken in. A layer is open until it has an activation.
class EdgeNetworkFolder {
 public:
  void operator()(const LinearStep& step) {
    ParametersRef weight = ToParameters(step.weight), bias = ToParameters(step.bias);
    if (open_ && diagonal_) {
      bias = AfterAffine(*weight, bias, *layers_.back().bias);
      weight = ScaledColumns(*weight, *layers_.back().weight);
      layers_.pop_back();
    }
    Open(std::move(weight), std::move(bias), false);
  }
  void operator()(const BatchNormStep& step) {
    const Affine affine = ToAffine(step);
    if (!open_) return Open(Diagonal(*affine.scale), affine.shift, true);
    EdgeLayer& layer = layers_.back();
    auto weight = std::make_shared<Parameters>(*layer.weight);
    auto bias = std::make_shared<Parameters>(*affine.shift);
    for (int64_t r = 0; r < weight->rows; ++r) {
      const double scale = affine.scale->values[r];
      for (int64_t c = 0; c < weight->cols; ++c) weight->values[r * weight->cols + c] *= scale;
      if (layer.bias != nullptr) bias->values[r] += layer.bias->values[r] * scale;
    }
    layer.weight = std::move(weight);
    layer.bias = std::move(bias);
  }
  void operator()(const ActivationStep& step) {
    if (step.activation.kind == ActivationKind::kNone) return;
    if (!open_) OpenIdentity();
    layers_.back().activation = step.activation;
    open_ = false;
  }

  std::vector<EdgeLayer> Take() { return std::move(layers_); }

 private:
  void Open(ParametersRef weight, ParametersRef bias, bool diagonal) {
    layers_.push_back({std::move(weight), std::move(bias), {}});
    open_ = true;
    diagonal_ = diagonal;
  }
  // Two activations in a row.
  void OpenIdentity() {
    Parameters ones;
    ones.rows = 1;
    ones.cols = layers_.back().weight->rows;
    ones.values.assign(ones.cols, 1.0);
    Open(Diagonal(ones), nullptr, true);
  }

  static ParametersRef Diagonal(const Parameters& scale) {
    auto diagonal = std::make_shared<Parameters>();
    diagonal->rows = diagonal->cols = scale.cols;
    diagonal->values.assign(scale.cols * scale.cols, 0.0);
    for (int64_t i = 0; i < scale.cols; ++i) diagonal->values[i * scale.cols + i] = scale.values[i];
    return diagonal;
  }
  // W D for a diagonal D.
  static ParametersRef ScaledColumns(const Parameters& weight, const Parameters& diagonal) {
    auto scaled = std::make_shared<Parameters>(weight);
    for (int64_t r = 0; r < weight.rows; ++r) {
      for (int64_t c = 0; c < weight.cols; ++c)
        scaled->values[r * weight.cols + c] *= diagonal.values[c * weight.cols + c];
    }
    return scaled;
  }
  // W shift + b.
  static ParametersRef AfterAffine(const Parameters& weight, const ParametersRef& bias, const Parameters& shift) {
    auto sum = std::make_shared<Parameters>();
    sum->rows = 1;
    sum->cols = weight.rows;
    for (int64_t r = 0; r < weight.rows; ++r) {
      double value = bias != nullptr ? bias->values[r] : 0.0;
      for (int64_t c = 0; c < weight.cols; ++c) value += weight.values[r * weight.cols + c] * shift.values[c];
      sum->values.push_back(value);
    }
    return sum;
  }

  std::vector<EdgeLayer> layers_;
  bool open_ = false;
  bool diagonal_ = false;
};

}  // namespace

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

std::vector<EdgeLayer> FoldEdgeNetwork(const std::vector<EdgeOp>& nn) {
  EdgeNetworkFolder folder;
  for (const EdgeOp& op : nn) std::visit(folder, op);
  return folder.Take();
}

}  // namespace vicinal::internal

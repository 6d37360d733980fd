// SPDX-License-Identifier: Apache-2.0
// The argument `nn` of layers that apply it to each edge: EdgeConv's, to rows of nodes, and NNConv's, to the edge's
// features.
#ifndef VICINAL_ENGINE_MODEL_LAYERS_EDGE_MLP_H_
#define VICINAL_ENGINE_MODEL_LAYERS_EDGE_MLP_H_

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/model/layer_type.h"

namespace vicinal::internal {

// Widest row of an edge that is scaled or activated by a layer of its own, as a product with a square matrix.
inline constexpr int64_t kMaxOwnWidth = 1024;

// Converts a step of nn to an operation on edges, and counts the resulting dense layers.
class EdgeMlp {
 public:
  // `user`: whose nn it is, for messages.
  explicit EdgeMlp(std::string user) : user_(std::move(user)) {}

  Status Add(const Step& step, const LayerDeclaration& layer) {
    const std::string what = layer.type + " (" + layer.field + ")";
    if (const auto* linear = std::get_if<LinearStep>(&step.op)) {
      if (!open_ || !own_) ++count_;
      open_ = true, own_ = false;
      ops_.push_back(*linear);
    } else if (ops_.empty()) {
      return UnsupportedArgument(
          layer.field, what + " comes before the first Linear of " + user_ + "'s nn; nn must begin with a Linear");
    } else if (const auto* norm = std::get_if<BatchNormStep>(&step.op)) {
      VICINAL_RETURN_IF_ERROR(NeedLayer(step.width, what, layer.field));
      ops_.push_back(*norm);
    } else if (const auto* activation = std::get_if<ActivationStep>(&step.op)) {
      VICINAL_RETURN_IF_ERROR(NeedLayer(step.width, what, layer.field));
      open_ = false;
      ops_.push_back(*activation);
    } else {
      return UnsupportedArgument(layer.field, what + " is not supported in " + user_ +
                                                  "'s nn; supported: Linear, MLP, BatchNorm, BatchNorm1d, activations "
                                                  "of one step (docs/layers.md), Dropout, Identity");
    }
    if (count_ <= kMaxEdgeConvLayers) return OkStatus();
    return UnsupportedArgument(layer.field, user_ + "'s nn has more than " + std::to_string(kMaxEdgeConvLayers) +
                                                " layers up to " + what + ", the maximum");
  }
  std::vector<EdgeConvOp> TakeOps() { return std::move(ops_); }

 private:
  // A normalisation or activation becomes part of the product before it, unless that already has an activation.
  Status NeedLayer(int64_t width, const std::string& what, const std::string& field) {
    if (open_) return OkStatus();
    ++count_;
    open_ = own_ = true;
    if (width <= kMaxOwnWidth) return OkStatus();
    return UnsupportedArgument(field, what + " follows an activation and is " + std::to_string(width) +
                                          " columns wide; at most " + std::to_string(kMaxOwnWidth) +
                                          " are supported there");
  }

  const std::string user_;
  std::vector<EdgeConvOp> ops_;
  int count_ = 0;
  bool open_ = false;  // the last layer has no activation yet
  bool own_ = false;   // the last layer is a normalisation's own: a product after it takes it in
};

struct EdgeMlpOps {
  std::vector<EdgeConvOp> ops;  // the first is a product
  int64_t width = 0;            // of the last one's result
};

// `nn`, over rows of `width` columns.
inline StatusOr<EdgeMlpOps> ReadEdgeMlp(const LayerContext& context, int64_t width) {
  VICINAL_ASSIGN_OR_RETURN(
      const std::vector<LayerDeclaration> layers,
      ParseNestedLayers(context.args.Raw("nn"), context.declaration.prefix + "nn.", context.args.FieldOf("nn")));
  StepList inner(width);
  EdgeMlp mlp(context.declaration.type);
  ValueId value = kInputValue;
  for (const LayerDeclaration& layer : layers) {
    const size_t begin = inner.steps().size();
    VICINAL_ASSIGN_OR_RETURN(value,
                             LowerLayer(layer, {value}, inner, context.tensors, context.graph_level, true, nullptr));
    for (size_t i = begin; i < inner.steps().size(); ++i) VICINAL_RETURN_IF_ERROR(mlp.Add(inner.steps()[i], layer));
  }
  EdgeMlpOps read = {mlp.TakeOps(), inner.width(value)};
  if (read.ops.empty()) {
    return UnsupportedArgument(context.args.FieldOf("nn"),
                               context.Describe() + " has an nn without a Linear; nn must begin with a Linear");
  }
  return read;
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYERS_EDGE_MLP_H_

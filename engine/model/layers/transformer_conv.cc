// SPDX-License-Identifier: Apache-2.0
// TransformerConv (Shi et al. 2021): dot-product attention over in-edges, per head, plus a skip connection that is
// added, or with `beta` mixed in by a gate. Loops and duplicates count as sent; no in-edges: the skip connection alone.
// With `edge_dim`, the product of an edge's features is added to its key and its value.
#include <utility>

#include "engine/model/layers/edge_features.h"
#include "engine/model/layers/heads.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

// The product `name`, with a bias where the layer has one.
StatusOr<ValueId> Product(const LayerContext& context, const std::string& name, int64_t width) {
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor(name + ".weight", {width, context.input_width()}));
  WeightRef bias;
  if (context.args.Bool("bias")) {
    VICINAL_ASSIGN_OR_RETURN(bias, context.Tensor(name + ".bias", {width}));
  }
  return context.steps.Emit(LinearStep{weight, bias}, {context.input()}, width);
}

// PyTorch Geometric makes lin_skip even where root_weight is false.
Status SkipTensors(const LayerContext& context, int64_t width) {
  const std::string name = context.declaration.prefix + "lin_skip.";
  VICINAL_RETURN_IF_ERROR(
      context.tensors.BindUnread(name + "weight", {width, context.input_width()}, context.Describe()));
  if (!context.args.Bool("bias")) return OkStatus();
  return context.tensors.BindUnread(name + "bias", {width}, context.Describe());
}

StatusOr<ValueId> LowerTransformer(const LayerContext& context) {
  VICINAL_ASSIGN_OR_RETURN(const Heads heads, ReadHeads(context));
  AttentionStep step;
  step.kind = AttentionKind::kDot;
  step.heads = heads.count;
  step.head_width = heads.width;
  step.concat = context.args.Bool("concat");
  VICINAL_ASSIGN_OR_RETURN(const ValueId key, Product(context, "lin_key", heads.total));
  VICINAL_ASSIGN_OR_RETURN(const ValueId query, Product(context, "lin_query", heads.total));
  VICINAL_ASSIGN_OR_RETURN(const ValueId value, Product(context, "lin_value", heads.total));
  step.edge_width = EdgeDim(context);
  if (step.edge_width > 0) {
    VICINAL_ASSIGN_OR_RETURN(step.edge_weight, context.Tensor("lin_edge.weight", {heads.total, step.edge_width}));
  }
  const ValueId out = context.steps.Emit(std::move(step), {value, query, key}, heads.out);
  if (!context.args.Bool("root_weight")) {
    VICINAL_RETURN_IF_ERROR(SkipTensors(context, heads.out));
    return out;
  }
  VICINAL_ASSIGN_OR_RETURN(const ValueId skip, Product(context, "lin_skip", heads.out));
  if (!context.args.Bool("beta")) return context.steps.Emit(AddStep{}, {out, skip}, heads.out);
  VICINAL_ASSIGN_OR_RETURN(WeightRef beta, context.Tensor("lin_beta.weight", {1, 3 * heads.out}));
  return context.steps.Emit(GateStep{beta}, {out, skip}, heads.out);
}

}  // namespace

LayerType TransformerConv() {
  LayerType type;
  type.name = "TransformerConv";
  type.arguments = HeadArguments();
  AddArguments({BoolArgument("beta", false), IgnoredArgument("dropout"), EdgeDimArgument(), BoolArgument("bias", true),
                BoolArgument("root_weight", true)},
               &type.arguments);
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.convolution = true;
  type.lower = LowerTransformer;
  return type;
}

}  // namespace vicinal::internal

// SPDX-License-Identifier: Apache-2.0
// GATConv (Velickovic et al. 2018) and GATv2Conv (Brody et al. 2022): a softmax-weighted sum over in-edges, per head.
// All self-loops are removed and one is added per node, unless add_self_loops is false; duplicates count as often as
// they stand. With `edge_dim`, features of edges take part in the scores; added loops have those of `fill_value`.
#include <utility>

#include "engine/model/layers/edge_features.h"
#include "engine/model/layers/heads.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

AttentionStep Attention(const LayerContext& context, const Heads& heads, AttentionKind kind) {
  AttentionStep step;
  step.kind = kind;
  if (context.args.Bool("add_self_loops")) step.adjacency.loops = SelfLoops::kReplace;
  step.heads = heads.count;
  step.head_width = heads.width;
  step.negative_slope = context.args.Number("negative_slope");
  step.concat = context.args.Bool("concat");
  return step;
}

// The features of edges that `step` reads, if it has an edge_dim.
Status TakeEdgeFeatures(const LayerContext& context, const Heads& heads, AttentionStep* step) {
  step->edge_width = EdgeDim(context);
  if (step->edge_width == 0) return OkStatus();
  VICINAL_ASSIGN_OR_RETURN(step->loop_features, ReadFillValue(context));
  VICINAL_ASSIGN_OR_RETURN(step->edge_weight, context.Tensor("lin_edge.weight", {heads.total, step->edge_width}));
  return OkStatus();
}

// Adds the learned residual and the bias, in PyTorch Geometric's order.
StatusOr<ValueId> Finish(const LayerContext& context, const Heads& heads, ValueId value) {
  if (context.args.Bool("residual")) {
    VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("res.weight", {heads.out, context.input_width()}));
    const ValueId residual = context.steps.Emit(LinearStep{weight, nullptr}, {context.input()}, heads.out);
    value = context.steps.Emit(AddStep{}, {value, residual}, heads.out);
  }
  if (!context.args.Bool("bias")) return value;
  VICINAL_ASSIGN_OR_RETURN(WeightRef bias, context.Tensor("bias", {heads.out}));
  return context.steps.Emit(BiasStep{bias}, {value}, heads.out);
}

StatusOr<ValueId> LowerV1(const LayerContext& context) {
  VICINAL_ASSIGN_OR_RETURN(const Heads heads, ReadHeads(context));
  AttentionStep step = Attention(context, heads, AttentionKind::kGat);
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("lin.weight", {heads.total, context.input_width()}));
  VICINAL_ASSIGN_OR_RETURN(step.att_src, context.Tensor("att_src", {1, heads.count, heads.width}, {heads.total}));
  VICINAL_ASSIGN_OR_RETURN(step.att_dst, context.Tensor("att_dst", {1, heads.count, heads.width}, {heads.total}));
  VICINAL_RETURN_IF_ERROR(TakeEdgeFeatures(context, heads, &step));
  if (step.edge_width > 0) {
    VICINAL_ASSIGN_OR_RETURN(step.att_edge, context.Tensor("att_edge", {1, heads.count, heads.width}, {heads.total}));
  }
  const ValueId h = context.steps.Emit(LinearStep{weight, nullptr}, {context.input()}, heads.total);
  return Finish(context, heads, context.steps.Emit(step, {h}, heads.out));
}

// lin_l or lin_r: with a bias where the layer has one.
StatusOr<ValueId> Side(const LayerContext& context, const Heads& heads, const std::string& name) {
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor(name + ".weight", {heads.total, context.input_width()}));
  WeightRef bias;
  if (context.args.Bool("bias")) {
    VICINAL_ASSIGN_OR_RETURN(bias, context.Tensor(name + ".bias", {heads.total}));
  }
  return context.steps.Emit(LinearStep{weight, bias}, {context.input()}, heads.total);
}

StatusOr<ValueId> LowerV2(const LayerContext& context) {
  VICINAL_ASSIGN_OR_RETURN(const Heads heads, ReadHeads(context));
  AttentionStep step = Attention(context, heads, AttentionKind::kGatV2);
  VICINAL_ASSIGN_OR_RETURN(step.att_src, context.Tensor("att", {1, heads.count, heads.width}, {heads.total}));
  VICINAL_RETURN_IF_ERROR(TakeEdgeFeatures(context, heads, &step));
  VICINAL_ASSIGN_OR_RETURN(const ValueId left, Side(context, heads, "lin_l"));
  ValueId right = left;
  if (context.args.Bool("share_weights")) {
    const std::string& prefix = context.declaration.prefix;
    VICINAL_RETURN_IF_ERROR(
        context.tensors.BindCopy(prefix + "lin_r.weight", prefix + "lin_l.weight", context.Describe()));
    if (context.args.Bool("bias")) {
      VICINAL_RETURN_IF_ERROR(
          context.tensors.BindCopy(prefix + "lin_r.bias", prefix + "lin_l.bias", context.Describe()));
    }
  } else {
    VICINAL_ASSIGN_OR_RETURN(right, Side(context, heads, "lin_r"));
  }
  return Finish(context, heads, context.steps.Emit(step, {left, right}, heads.out));
}

LayerType AttentionType(const char* name) {
  LayerType type;
  type.name = name;
  type.arguments = HeadArguments();
  AddArguments({NumberArgument("negative_slope", 0.2, 0.0, 1.0), IgnoredArgument("dropout"),
                BoolArgument("add_self_loops", true), EdgeDimArgument(), FillValueArgument(),
                BoolArgument("bias", true), BoolArgument("residual", false)},
               &type.arguments);
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.convolution = true;
  return type;
}

}  // namespace

LayerType GatConv() {
  LayerType type = AttentionType("GATConv");
  type.lower = LowerV1;
  return type;
}

LayerType GatV2Conv() {
  LayerType type = AttentionType("GATv2Conv");
  type.arguments.push_back(BoolArgument("share_weights", false));
  type.lower = LowerV2;
  return type;
}

}  // namespace vicinal::internal

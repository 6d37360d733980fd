// SPDX-License-Identifier: Apache-2.0
// ClusterGCNConv (Chiang et al. 2019): out = (A' + lambda diag(A')) x W_out^T + b + x W_root^T, where A' is the mean
// over the in-edges after loops have been replaced by one per node.
#include <utility>

#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> LowerClusterGcn(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t in = context.input_width(), out = args.Int("out_channels");
  PropagateStep propagate;
  propagate.adjacency.loops = SelfLoops::kReplace;
  if (args.Number("diag_lambda") == 0.0) {
    propagate.reduce = Reduce::kMean;
  } else {
    propagate.adjacency.weighting = EdgeWeighting::kMeanOnes;
    propagate.adjacency.loop_weight = static_cast<float>(1.0 + args.Number("diag_lambda"));
  }
  const ValueId mean = context.steps.Emit(propagate, {context.input()}, in);
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("lin_out.weight", {out, in}));
  WeightRef bias;
  if (args.Bool("bias")) {
    VICINAL_ASSIGN_OR_RETURN(bias, context.Tensor("lin_out.bias", {out}));
  }
  const ValueId neighbours = context.steps.Emit(LinearStep{weight, bias}, {mean}, out);
  VICINAL_ASSIGN_OR_RETURN(WeightRef root_weight, context.Tensor("lin_root.weight", {out, in}));
  const ValueId root = context.steps.Emit(LinearStep{root_weight, nullptr}, {context.input()}, out);
  return context.steps.Emit(AddStep{}, {neighbours, root}, out);
}

}  // namespace

LayerType ClusterGcnConv() {
  LayerType type;
  type.name = "ClusterGCNConv";
  type.arguments = {
      InChannelsArgument("in_channels"), RequiredIntArgument("out_channels", 1, kMaxWidth),
      NumberArgument("diag_lambda", 0.0, -1e6, 1e6),
      RefusedArgument("add_self_loops", {true},
                      "PyTorch Geometric's layer fails without, unless the graph has as many loops as nodes"),
      BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.convolution = true;
  type.lower = LowerClusterGcn;
  return type;
}

}  // namespace vicinal::internal

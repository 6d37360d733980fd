// SPDX-License-Identifier: Apache-2.0
// GCNConv (Kipf and Welling 2017): out = A' (x W^T) + b, where A' is the adjacency with remaining self-loops added,
// normalised by the square roots of both ends' weighted in-degrees.
#include <utility>

#include "engine/model/layers/gcn_adjacency.h"
#include "engine/model/layers/layers.h"
#include "engine/model/layers/root_and_bias.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> LowerGcn(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t width = args.Int("out_channels");
  const bool normalize = args.Bool("normalize");
  const bool add_self_loops = args.IsNull("add_self_loops") ? normalize : args.Bool("add_self_loops");
  if (add_self_loops && !normalize) {
    return BadArchitecture(args.FieldOf("add_self_loops"),
                           context.Describe() + " cannot add self-loops without normalize, as in PyTorch Geometric");
  }
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("lin.weight", {width, context.input_width()}));
  ValueId value = context.steps.Emit(LinearStep{weight, nullptr}, {context.input()}, width);
  PropagateStep propagate;
  propagate.adjacency =
      GcnAdjacency({normalize, add_self_loops, args.Bool("improved"), context.declaration.edge_weight});
  value = context.steps.Emit(propagate, {value}, width);
  return AddBias(context, value, width);
}

}  // namespace

LayerType GcnConv() {
  LayerType type;
  type.name = "GCNConv";
  type.arguments = {InChannelsArgument("in_channels"),
                    RequiredIntArgument("out_channels", 1, kMaxWidth),
                    BoolArgument("improved", false),
                    IgnoredArgument("cached"),
                    BoolArgument("add_self_loops", nullptr),
                    BoolArgument("normalize", true),
                    BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.convolution = true;
  type.takes_edge_weight = true;
  type.lower = LowerGcn;
  return type;
}

}  // namespace vicinal::internal

// SPDX-License-Identifier: Apache-2.0
// GCN2Conv (GCNII, Chen et al. 2020), over a layer x and the initial features x_0, with GCNConv's A':
// out = (1 - beta) h + beta h W_1 for h = (1 - alpha) A' x + alpha x_0; with separate weights the two parts of h go
// through W_1 and W_2, each by itself.
#include <cmath>
#include <utility>

#include "engine/model/layers/derived_weights.h"
#include "engine/model/layers/gcn_adjacency.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

// log(theta / layer + 1), or 1 without them.
StatusOr<double> Beta(const LayerContext& context) {
  const Arguments& args = context.args;
  if (args.IsNull("theta") && args.IsNull("layer")) return 1.0;
  for (const char* name : {"theta", "layer"}) {
    if (args.IsNull(name))
      return BadArchitecture(args.FieldOf(name), context.Describe() + " needs both theta and layer, or neither; " +
                                                     args.FieldOf(name) + " is missing");
  }
  return std::log(args.Number("theta") / static_cast<double>(args.Int("layer")) + 1.0);
}

// (1 - beta) h + beta h W, W stored as [in, out].
StatusOr<ValueId> Mixed(const LayerContext& context, ValueId h, const char* name, double beta) {
  const int64_t width = context.input_width();
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor(name, {width, width}));
  const ValueId product =
      context.steps.Emit(LinearStep{TransposedPart(context, *weight, 0, width, width), nullptr}, {h}, width);
  if (beta == 1.0) return product;
  return context.steps.Emit(AddStep{beta, 1.0 - beta}, {product, h}, width);
}

StatusOr<ValueId> LowerGcn2(const LayerContext& context) {
  const Arguments& args = context.args;
  const int64_t width = context.input_width();
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("channels"));
  if (context.steps.width(context.inputs[1]) != width)
    return BadArchitecture(context.declaration.field + ".inputs",
                           context.Describe() + " needs inputs of one width, but they have " + std::to_string(width) +
                               " and " + std::to_string(context.steps.width(context.inputs[1])) + " columns");
  VICINAL_ASSIGN_OR_RETURN(const double beta, Beta(context));
  const double alpha = args.Number("alpha");
  PropagateStep propagate;
  propagate.adjacency = GcnAdjacency({args.Bool("normalize"), args.Bool("add_self_loops") && args.Bool("normalize"),
                                      false, context.declaration.edge_weight});
  const ValueId propagated = context.steps.Emit(propagate, {context.input()}, width);
  if (args.Bool("shared_weights")) {
    const ValueId h = context.steps.Emit(AddStep{1.0 - alpha, alpha}, {propagated, context.inputs[1]}, width);
    return Mixed(context, h, "weight1", beta);
  }
  const ValueId left = context.steps.Emit(ScaleStep{1.0 - alpha, nullptr}, {propagated}, width);
  const ValueId right = context.steps.Emit(ScaleStep{alpha, nullptr}, {context.inputs[1]}, width);
  VICINAL_ASSIGN_OR_RETURN(const ValueId first, Mixed(context, left, "weight1", beta));
  VICINAL_ASSIGN_OR_RETURN(const ValueId second, Mixed(context, right, "weight2", beta));
  return context.steps.Emit(AddStep{}, {first, second}, width);
}

}  // namespace

LayerType Gcn2Conv() {
  LayerType type;
  type.name = "GCN2Conv";
  ArgumentSpec alpha = NumberArgument("alpha", 0.0, 0.0, 1.0), theta = NumberArgument("theta", 0.0, 0.0, 1e6);
  alpha.required = true;
  theta.default_value = nullptr;
  type.arguments = {InChannelsArgument("channels"),
                    alpha,
                    theta,
                    IntArgument("layer", nullptr, 1, 1'000'000),
                    BoolArgument("shared_weights", true),
                    IgnoredArgument("cached"),
                    BoolArgument("add_self_loops", true),
                    BoolArgument("normalize", true)};
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.min_inputs = type.max_inputs = 2;
  type.convolution = true;
  type.takes_edge_weight = true;
  type.lower = LowerGcn2;
  return type;
}

}  // namespace vicinal::internal

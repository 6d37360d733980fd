// SPDX-License-Identifier: Apache-2.0
// DirGNNConv (Rossi et al. 2023): a convolution over the in-edges and one of the same kind over the out-edges,
//   out = alpha conv_out(x) + (1 - alpha) conv_in(x), plus x W^T + b with `root_weight`.
// As in PyTorch Geometric, neither adds self-loops nor a root of its own.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

// Tensors of a root that is not computed here, which state_dicts have.
constexpr const char* kRootTensors[] = {"lin_r.weight",    "lin_skip.weight", "lin_skip.bias",
                                        "lin_beta.weight", "lin.weight",      "root.weight"};

bool TakesArgument(const LayerType& type, const char* argument) {
  return std::any_of(type.arguments.begin(), type.arguments.end(),
                     [&](const ArgumentSpec& spec) { return spec.name == argument; });
}

// The convolution that `conv` names, without loops and root.
StatusOr<LayerDeclaration> ReadDirectedConv(const LayerContext& context) {
  const std::string field = context.args.FieldOf("conv");
  VICINAL_ASSIGN_OR_RETURN(std::vector<LayerDeclaration> layers,
                           ParseNestedLayers(context.args.Raw("conv"), context.declaration.prefix, field));
  LayerDeclaration conv = std::move(layers.front());
  const LayerType* const type = FindLayerType(conv.type);
  if (layers.size() != 1 || type == nullptr || !type->convolution || type->min_inputs != 1 ||
      conv.type == context.declaration.type) {
    return BadArchitecture(field, field + " of " + context.Describe() +
                                      " must be a list of one convolution of one input (docs/layers.md)");
  }
  for (const char* argument : {"add_self_loops", "root_weight"}) {
    if (TakesArgument(*type, argument)) conv.args[argument] = false;
  }
  return conv;
}

// `conv` with the tensors under `name`, over in-edges or, with `out`, over out-edges.
StatusOr<ValueId> LowerDirection(const LayerContext& context, LayerDeclaration conv, const std::string& name,
                                 bool out) {
  conv.prefix = context.declaration.prefix + name + ".";
  const size_t first = context.steps.steps().size();
  VICINAL_ASSIGN_OR_RETURN(const ValueId value, LowerLayer(conv, {context.input()}, context.steps, context.tensors,
                                                           context.graph_level, false, nullptr));
  for (size_t i = first; i < context.steps.steps().size(); ++i) {
    if (EdgeWidthOf(context.steps.steps()[i].op) == 0) continue;
    return UnsupportedArgument(conv.field, "the convolution of " + context.Describe() +
                                               " reads features of edges, which it is not given; choose one that "
                                               "reads none");
  }
  if (out) context.steps.TurnRound(first);
  if (conv.args.value("root_weight", true)) return value;
  for (const char* tensor : kRootTensors) {
    const std::vector<int64_t>* const shape = context.tensors.ShapeOf(conv.prefix + tensor);
    if (shape == nullptr) continue;
    VICINAL_RETURN_IF_ERROR(
        context.tensors.BindUnread(conv.prefix + tensor, std::vector<int64_t>(*shape), context.Describe()));
  }
  return value;
}

StatusOr<ValueId> LowerDirGnn(const LayerContext& context) {
  VICINAL_ASSIGN_OR_RETURN(const LayerDeclaration conv, ReadDirectedConv(context));
  VICINAL_ASSIGN_OR_RETURN(const ValueId in, LowerDirection(context, conv, "conv_in", false));
  VICINAL_ASSIGN_OR_RETURN(const ValueId out, LowerDirection(context, conv, "conv_out", true));
  const double alpha = context.args.Number("alpha");
  const int64_t width = context.steps.width(in);
  const ValueId both = context.steps.Emit(AddStep{alpha, 1.0 - alpha}, {out, in}, width);
  if (!context.args.Bool("root_weight")) return both;
  VICINAL_ASSIGN_OR_RETURN(WeightRef weight, context.Tensor("lin.weight", {width, context.input_width()}));
  VICINAL_ASSIGN_OR_RETURN(WeightRef bias, context.Tensor("lin.bias", {width}));
  const ValueId root = context.steps.Emit(LinearStep{weight, bias}, {context.input()}, width);
  return context.steps.Emit(AddStep{}, {both, root}, width);
}

}  // namespace

LayerType DirGnnConv() {
  LayerType type;
  type.name = "DirGNNConv";
  type.arguments = {NestedArgument("conv"), NumberArgument("alpha", 0.5, -1e6, 1e6), BoolArgument("root_weight", true)};
  type.convolution = true;
  type.lower = LowerDirGnn;
  return type;
}

}  // namespace vicinal::internal

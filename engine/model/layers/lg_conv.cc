// SPDX-License-Identifier: Apache-2.0
// LGConv (LightGCN, He et al. 2020): out = A' x with GCNConv's A' without added loops; without `normalize` A as sent.
// No weights of its own.
#include <utility>

#include "engine/model/layers/gcn_adjacency.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> LowerLg(const LayerContext& context) {
  PropagateStep propagate;
  propagate.adjacency = GcnAdjacency({context.args.Bool("normalize"), false, false, context.declaration.edge_weight});
  return context.steps.Emit(propagate, {context.input()}, context.input_width());
}

}  // namespace

LayerType LgConv() {
  LayerType type;
  type.name = "LGConv";
  type.arguments = {BoolArgument("normalize", true)};
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.convolution = true;
  type.takes_edge_weight = true;
  type.lower = LowerLg;
  return type;
}

}  // namespace vicinal::internal

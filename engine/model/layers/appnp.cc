// SPDX-License-Identifier: Apache-2.0
// APPNP (Gasteiger et al. 2019): z_0 = x, z_k = (1 - alpha) A' z_(k-1) + alpha x, out = z_K, with GCNConv's A'; without
// `normalize` A is taken as sent. No weights of its own.
#include <utility>

#include "engine/model/layers/gcn_adjacency.h"
#include "engine/model/layers/layers.h"

namespace vicinal::internal {
namespace {

StatusOr<ValueId> LowerAppnp(const LayerContext& context) {
  const Arguments& args = context.args;
  const bool normalize = args.Bool("normalize");
  const int64_t width = context.input_width();
  PropagateStep propagate;
  propagate.adjacency =
      GcnAdjacency({normalize, normalize && args.Bool("add_self_loops"), false, context.declaration.edge_weight});
  const double alpha = args.Number("alpha");
  ValueId value = context.input();
  for (int64_t k = 0; k < args.Int("K"); ++k) {
    value = context.steps.Emit(propagate, {value}, width);
    value = context.steps.Emit(AddStep{1.0 - alpha, alpha}, {value, context.input()}, width);
  }
  return value;
}

}  // namespace

LayerType Appnp() {
  LayerType type;
  type.name = "APPNP";
  ArgumentSpec alpha = NumberArgument("alpha", 0.0, 0.0, 1.0);
  alpha.required = true;
  type.arguments = {RequiredIntArgument("K", 0, kMaxHops),
                    alpha,
                    IgnoredArgument("dropout"),
                    IgnoredArgument("cached"),
                    BoolArgument("add_self_loops", true),
                    BoolArgument("normalize", true)};
  AddArguments(MessagePassingArguments(true), &type.arguments);
  type.convolution = true;
  type.takes_edge_weight = true;
  type.lower = LowerAppnp;
  return type;
}

}  // namespace vicinal::internal

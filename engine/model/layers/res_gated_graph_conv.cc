// SPDX-License-Identifier: Apache-2.0
// ResGatedGraphConv (Bresson and Laurent 2017): out_i = reduce_{j -> i} act(k_i + q_j) * v_j + x_i W_skip^T + b for k =
// [x_i, e_ij] W_key^T + b_key, and q and v likewise of [x_j, e_ij]. Products with nodes are formed per node. Loops and
// duplicates count as sent; no in-edges: reduces to 0.
#include <string>
#include <utility>
#include <vector>

#include "engine/model/layers/derived_weights.h"
#include "engine/model/layers/edge_features.h"
#include "engine/model/layers/layers.h"
#include "engine/model/layers/root_and_bias.h"

namespace vicinal::internal {
namespace {

struct Linears {
  WeightRef key, query, value;
  WeightRef key_bias, query_bias, value_bias;
};

StatusOr<Linears> ReadLinears(const LayerContext& context, int64_t in, int64_t out) {
  Linears read;
  VICINAL_ASSIGN_OR_RETURN(read.key, context.Tensor("lin_key.weight", {out, in}));
  VICINAL_ASSIGN_OR_RETURN(read.key_bias, context.Tensor("lin_key.bias", {out}));
  VICINAL_ASSIGN_OR_RETURN(read.query, context.Tensor("lin_query.weight", {out, in}));
  VICINAL_ASSIGN_OR_RETURN(read.query_bias, context.Tensor("lin_query.bias", {out}));
  VICINAL_ASSIGN_OR_RETURN(read.value, context.Tensor("lin_value.weight", {out, in}));
  VICINAL_ASSIGN_OR_RETURN(read.value_bias, context.Tensor("lin_value.bias", {out}));
  return read;
}

// What an edge's features are multiplied by: key's and query's columns from `first` on added up, above value's.
WeightRef EdgeWeight(const LayerContext& context, const Linears& linears, int64_t first, int64_t count) {
  const int64_t out = linears.key->shape[0], stride = linears.key->shape[1];
  const std::string key = "sum of columns of " + linears.key->name;
  return context.tensors.Make(key, {2 * out, count}, [&](std::vector<float>& values) {
    for (int64_t r = 0; r < out; ++r) {
      for (int64_t c = 0; c < count; ++c) {
        const int64_t from = r * stride + first + c;
        values[r * count + c] = linears.key->values[from] + linears.query->values[from];
        values[(out + r) * count + c] = linears.value->values[from];
      }
    }
  });
}

StatusOr<ValueId> GatedMessages(const LayerContext& context, int64_t out) {
  const int64_t in = context.input_width(), features = EdgeDim(context);
  EdgeMessageStep step;
  step.reduce = context.args.Aggr();
  step.function = EdgeFunction::kGated;
  VICINAL_ASSIGN_OR_RETURN(step.gate, ReadActivation(context));
  VICINAL_ASSIGN_OR_RETURN(const Linears linears, ReadLinears(context, in + features, out));
  const ValueId keys = context.steps.Emit(LinearStep{StackedColumns(context, {linears.key}, 0, in), linears.key_bias},
                                          {context.input()}, out);
  const ValueId sources = context.steps.Emit(LinearStep{StackedColumns(context, {linears.query, linears.value}, 0, in),
                                                        Joined(context, {linears.query_bias, linears.value_bias})},
                                             {context.input()}, 2 * out);
  step.edge_width = features;
  if (features > 0) step.edge_weight = EdgeWeight(context, linears, in, features);
  return context.steps.Emit(std::move(step), {sources, keys}, out);
}

StatusOr<ValueId> LowerResGated(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t out = args.Int("out_channels");
  VICINAL_ASSIGN_OR_RETURN(ValueId value, GatedMessages(context, out));
  if (args.Bool("root_weight")) {
    VICINAL_ASSIGN_OR_RETURN(value, AddRoot(context, "lin_skip.weight", value, out));
  }
  return AddBias(context, value, out);
}

}  // namespace

LayerType ResGatedGraphConv() {
  LayerType type;
  type.name = "ResGatedGraphConv";
  type.arguments = {InChannelsArgument("in_channels"),
                    RequiredIntArgument("out_channels", 1, kMaxWidth),
                    AnyArgument("act", "Sigmoid"),
                    AnyArgument("act_kwargs", nullptr),
                    EdgeDimArgument(),
                    AggrArgument("add"),
                    BoolArgument("root_weight", true),
                    BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(false), &type.arguments);
  type.convolution = true;
  type.lower = LowerResGated;
  return type;
}

}  // namespace vicinal::internal

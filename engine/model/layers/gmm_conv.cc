// SPDX-License-Identifier: Apache-2.0
// GMMConv (Monti et al. 2017): out_i = reduce_{j -> i} sum_k w_k(e_ij) (x_j G)^k + x_i W_root^T + b for the K parts of
// x_j G and Gaussians w_k(e) = exp(-1/2 sum_d (e_d - mu_kd)^2 / (sigma_kd^2 + 1e-15)). Loops and duplicates count as
// sent; no in-edges: reduces to 0.
#include <string>
#include <utility>
#include <vector>

#include "engine/model/layers/derived_weights.h"
#include "engine/model/layers/layers.h"
#include "engine/model/layers/root_and_bias.h"

namespace vicinal::internal {
namespace {

constexpr double kVarianceEps = 1e-15;

// The Gaussians as operations on the features of an edge: K A differences from the means, which are exact, squared,
// scaled and summed up, exponentials.
StatusOr<std::vector<EdgeConvOp>> Gaussians(const LayerContext& context, int64_t count, int64_t features) {
  VICINAL_ASSIGN_OR_RETURN(const WeightRef mu, context.Tensor("mu", {count, features}));
  VICINAL_ASSIGN_OR_RETURN(const WeightRef sigma, context.Tensor("sigma", {count, features}));
  const int64_t all = count * features;
  LinearStep differences, sums;
  differences.weight = context.tensors.Make("one of each feature", {all, features}, [&](std::vector<float>& values) {
    for (int64_t i = 0; i < all; ++i) values[i * features + i % features] = 1.0f;
  });
  differences.bias = context.tensors.Make("minus " + mu->name, {all}, [&](std::vector<float>& values) {
    for (int64_t i = 0; i < all; ++i) values[i] = -mu->values[i];
  });
  sums.weight = context.tensors.Make("precisions of " + sigma->name, {count, all}, [&](std::vector<float>& values) {
    for (int64_t i = 0; i < all; ++i) {
      const double deviation = sigma->values[i];
      values[i / features * all + i] = static_cast<float>(-0.5 / (deviation * deviation + kVarianceEps));
    }
  });
  return std::vector<EdgeConvOp>{differences, ActivationStep{{ActivationKind::kSquare}}, sums,
                                 ActivationStep{{ActivationKind::kExp}}};
}

StatusOr<ValueId> LowerGmm(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  const int64_t in = context.input_width(), out = args.Int("out_channels"), count = args.Int("kernel_size");
  if (out * count > kMaxWidth || count * args.Int("dim") > kMaxWidth)
    return BadArchitecture(args.FieldOf("kernel_size"),
                           context.Describe() + " would compute more than " + std::to_string(kMaxWidth) +
                               " columns, the maximum; kernel_size times out_channels and times dim must not be more");
  VICINAL_ASSIGN_OR_RETURN(const WeightRef g, context.Tensor("g", {in, out * count}));
  EdgeMessageStep step;
  step.reduce = args.Aggr();
  step.function = EdgeFunction::kMixture;
  step.edge_width = args.Int("dim");
  VICINAL_ASSIGN_OR_RETURN(step.nn, Gaussians(context, count, step.edge_width));
  const ValueId parts = context.steps.Emit(LinearStep{TransposedPart(context, *g, 0, in, out * count), nullptr},
                                           {context.input()}, out * count);
  ValueId value = context.steps.Emit(std::move(step), {parts}, out);
  VICINAL_ASSIGN_OR_RETURN(value, AddRoot(context, "root.weight", value, out));
  return AddBias(context, value, out);
}

}  // namespace

LayerType GmmConv() {
  LayerType type;
  type.name = "GMMConv";
  type.arguments = {InChannelsArgument("in_channels"),
                    RequiredIntArgument("out_channels", 1, kMaxWidth),
                    RequiredIntArgument("dim", 1, kMaxWidth),
                    RequiredIntArgument("kernel_size", 1, kMaxWidth),
                    RefusedArgument("separate_gaussians", {false},
                                    "a Gaussian per input and output channel would be computed for every edge; train "
                                    "with separate_gaussians=False"),
                    AggrArgument("mean"),
                    RefusedArgument("root_weight", {true}, "PyTorch Geometric's own layer fails without it"),
                    BoolArgument("bias", true)};
  AddArguments(MessagePassingArguments(false), &type.arguments);
  type.convolution = true;
  type.lower = LowerGmm;
  return type;
}

}  // namespace vicinal::internal

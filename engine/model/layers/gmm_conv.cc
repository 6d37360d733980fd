// SPDX-License-Identifier: Apache-2.0
// GMMConv (Monti et al. 2017): out_i = reduce_{j -> i} sum_k w_k(e_ij) (x_j G)^k + x_i W_root^T + b for the K parts of
// x_j G and Gaussians w_k(e) = exp(-1/2 sum_d (e_d - mu_kd)^2 / (sigma_kd^2 + 1e-15)). Loops and duplicates count as
// sent; no in-edges: reduces to 0. Sums and means of w_k x_j come before the product with G where x has no more columns
// than a part (docs/adr/0072).
#include <string>
#include <utility>
#include <vector>

#include "engine/model/layers/derived_weights.h"
#include "engine/model/layers/layers.h"
#include "engine/model/layers/root_and_bias.h"

namespace vicinal::internal {
namespace {

constexpr double kVarianceEps = 1e-15;

StatusOr<EdgeGaussians> Gaussians(const LayerContext& context, int64_t count, int64_t features) {
  VICINAL_ASSIGN_OR_RETURN(const WeightRef mu, context.Tensor("mu", {count, features}));
  VICINAL_ASSIGN_OR_RETURN(const WeightRef sigma, context.Tensor("sigma", {count, features}));
  const WeightRef scale =
      context.tensors.Make("scales of " + sigma->name, {count, features}, [&](std::vector<float>& values) {
        for (size_t i = 0; i < values.size(); ++i) {
          const double deviation = sigma->values[i];
          values[i] = static_cast<float>(-0.5 / (deviation * deviation + kVarianceEps));
        }
      });
  return EdgeGaussians{mu, scale};
}

// [out, K in] of a tensor [in, K out]: columns k in .. of the result are part k, transposed.
WeightRef PartsSideBySide(const LayerContext& context, const Weight& g, int64_t in, int64_t out, int64_t count) {
  return context.tensors.Make("parts side by side of " + g.name, {out, count * in}, [&](std::vector<float>& values) {
    for (int64_t i = 0; i < in; ++i) {
      for (int64_t k = 0; k < count; ++k) {
        for (int64_t o = 0; o < out; ++o) values[o * count * in + k * in + i] = g.values[(i * count + k) * out + o];
      }
    }
  });
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
  step.edge_width = args.Int("dim");
  VICINAL_ASSIGN_OR_RETURN(step.gaussians, Gaussians(context, count, step.edge_width));
  const bool linear = step.reduce == Reduce::kSum || step.reduce == Reduce::kMean;
  ValueId value = context.input();
  if (linear && in <= out) {
    step.function = EdgeFunction::kOuter;
    value = context.steps.Emit(std::move(step), {value}, count * in);
    value = context.steps.Emit(LinearStep{PartsSideBySide(context, *g, in, out, count), nullptr}, {value}, out);
  } else {
    step.function = EdgeFunction::kMixture;
    value =
        context.steps.Emit(LinearStep{TransposedPart(context, *g, 0, in, out * count), nullptr}, {value}, out * count);
    value = context.steps.Emit(std::move(step), {value}, out);
  }
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

// SPDX-License-Identifier: Apache-2.0
// PNAConv (Corso et al. 2020): per tower t a network of both ends and the edge, several reductions of it, each scaled
// by functions of the degree, and a network of these beside x_i; then a product over all towers:
//   m_t = pre_t([x_i, x_j, e W_e^T + b_e])     a_t = [c_s reduce_r m_t for scalers s, for reductions r]
//   out = [post_1([x, a_1]), post_2([x, a_2]), ...] W^T + b
// e's encoder is folded into pre's first product. A scaled value is multiplied after post's product instead of before
// it: one number per node and scaler, and rows as wide as what post gives. No in-edges: a_t is 0.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/model/layers/derived_weights.h"
#include "engine/model/layers/edge_features.h"
#include "engine/model/layers/layers.h"
#include "engine/model/layers/message_writer.h"

namespace vicinal::internal {
namespace {

constexpr std::array<std::string_view, 6> kPnaReductions = {"sum", "mean", "max",
                                                            "min", "var",  "std"};  // of EdgeReduce
constexpr std::array<std::string_view, 5> kPnaScalers = {"identity", "amplification", "attenuation", "linear",
                                                         "inverse_linear"};
constexpr size_t kMostPnaNames = 16;
constexpr int64_t kMostPnaLayers = 64, kMostPnaTowers = 256;

// The positions in `names` of what the list `argument` has.
template <size_t kCount>
StatusOr<std::vector<int>> ReadPnaNames(const LayerContext& context, const char* argument,
                                        const std::array<std::string_view, kCount>& names) {
  const nlohmann::json& list = context.args.Raw(argument);
  const std::string field = context.args.FieldOf(argument);
  if (!list.is_array() || list.empty() || list.size() > kMostPnaNames) {
    return BadArchitecture(field, context.Describe() + " needs " + argument + ", a list of 1 to " +
                                      std::to_string(kMostPnaNames) + " names");
  }
  std::vector<int> read;
  for (const nlohmann::json& item : list) {
    const std::string name =
        item.is_string() ? item.get<std::string>() : item.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    const auto* const found = std::find(names.begin(), names.end(), name == "add" ? "sum" : name);
    if (found == names.end()) {
      std::string known;
      for (const std::string_view one : names) known += (known.empty() ? "" : ", ") + std::string(one);
      return UnsupportedArgument(field, field + " of " + context.Describe() + " has '" + Printable(name) +
                                            "', which is not supported; supported: " + known);
    }
    read.push_back(static_cast<int>(found - names.begin()));
  }
  return read;
}

struct Pna {
  std::vector<int> reductions, scalers;
  int64_t towers = 1, in = 1, out = 1;  // widths of a tower
  int64_t features = 0;
  bool divided = false;  // each tower reads its own part of x
  Activation act;
  double mean_degree = 1.0, mean_log_degree = 1.0;
};

StatusOr<double> AverageDegree(const LayerContext& context, const std::string& name) {
  VICINAL_ASSIGN_OR_RETURN(const WeightRef average, context.Tensor(name, {1}));
  if (average->values[0] != 0.0f) return static_cast<double>(average->values[0]);
  return InvalidArgument("TENSOR_VALUE", average->name,
                         "tensor '" + average->name + "' of " + context.Describe() +
                             " is 0, and scalers divide by it; make the layer with the histogram `deg` of a graph "
                             "that has edges");
}

StatusOr<Pna> ReadPna(const LayerContext& context) {
  const Arguments& args = context.args;
  VICINAL_RETURN_IF_ERROR(context.CheckInChannels("in_channels"));
  Pna pna;
  VICINAL_ASSIGN_OR_RETURN(pna.reductions, ReadPnaNames(context, "aggregators", kPnaReductions));
  VICINAL_ASSIGN_OR_RETURN(pna.scalers, ReadPnaNames(context, "scalers", kPnaScalers));
  VICINAL_ASSIGN_OR_RETURN(pna.act, ReadActivation(context));
  pna.towers = args.Int("towers");
  pna.divided = args.Bool("divide_input") && pna.towers > 1;
  pna.features = EdgeDim(context);
  const int64_t out = args.Int("out_channels"), width = context.input_width();
  if (out % pna.towers != 0 || (pna.divided && width % pna.towers != 0)) {
    return BadArchitecture(args.FieldOf("towers"), args.FieldOf("towers") + " of " + context.Describe() + " is " +
                                                       std::to_string(pna.towers) + ", which must divide " +
                                                       "out_channels and, with divide_input, the input's width");
  }
  pna.in = pna.divided ? width / pna.towers : width;
  pna.out = out / pna.towers;
  VICINAL_ASSIGN_OR_RETURN(pna.mean_degree, AverageDegree(context, "aggr_module.avg_deg_lin"));
  VICINAL_ASSIGN_OR_RETURN(pna.mean_log_degree, AverageDegree(context, "aggr_module.avg_deg_log"));
  return pna;
}

struct PnaProduct {
  WeightRef weight, bias;
};

StatusOr<PnaProduct> ReadPnaProduct(const LayerContext& context, const std::string& name, int64_t out, int64_t in) {
  PnaProduct read;
  VICINAL_ASSIGN_OR_RETURN(read.weight, context.Tensor(name + ".weight", {out, in}));
  VICINAL_ASSIGN_OR_RETURN(read.bias, context.Tensor(name + ".bias", {out}));
  return read;
}

// "pre_nns.1.4": product `layer` of a tower's network, between which stand activations.
std::string PnaNameOf(const char* networks, int64_t tower, int64_t layer) {
  return std::string(networks) + "." + std::to_string(tower) + "." + std::to_string(2 * layer);
}

// pre's first product [in, 2 in + features], of the features themselves instead of their encoding.
PnaProduct FoldEncoder(const LayerContext& context, const Pna& pna, const PnaProduct& pre, const PnaProduct& encoder) {
  const int64_t in = pna.in, features = pna.features, own = 2 * in;
  PnaProduct folded;
  folded.weight = context.tensors.Make("encoded " + pre.weight->name, {in, own + features}, [&](auto& values) {
    for (int64_t r = 0; r < in; ++r) {
      const float* const row = pre.weight->values.data() + r * 3 * in;
      std::copy_n(row, own, values.begin() + r * (own + features));
      for (int64_t f = 0; f < features; ++f) {
        double sum = 0.0;
        for (int64_t c = 0; c < in; ++c)
          sum += static_cast<double>(row[own + c]) * encoder.weight->values[c * features + f];
        values[r * (own + features) + own + f] = static_cast<float>(sum);
      }
    }
  });
  folded.bias = context.tensors.Make("encoded " + pre.bias->name, {in}, [&](auto& values) {
    for (int64_t r = 0; r < in; ++r) {
      double sum = pre.bias->values[r];
      for (int64_t c = 0; c < in; ++c)
        sum += static_cast<double>(pre.weight->values[r * 3 * in + own + c]) * encoder.bias->values[c];
      values[r] = static_cast<float>(sum);
    }
  });
  return folded;
}

// The first product of each tower's message.
StatusOr<std::vector<PnaProduct>> FirstProducts(const LayerContext& context, const Pna& pna) {
  PnaProduct encoder;
  if (pna.features > 0) {
    VICINAL_ASSIGN_OR_RETURN(encoder, ReadPnaProduct(context, "edge_encoder", pna.in, pna.features));
  }
  std::vector<PnaProduct> products;
  for (int64_t tower = 0; tower < pna.towers; ++tower) {
    const int64_t parts = pna.features > 0 ? 3 : 2;
    VICINAL_ASSIGN_OR_RETURN(PnaProduct pre,
                             ReadPnaProduct(context, PnaNameOf("pre_nns", tower, 0), pna.in, parts * pna.in));
    products.push_back(pna.features > 0 ? FoldEncoder(context, pna, pre, encoder) : std::move(pre));
  }
  VICINAL_RETURN_IF_ERROR(context.tensors.CheckMade(context.declaration.field));
  return products;
}

// Each tower's message. Towers that read the same rows begin with one product.
StatusOr<std::vector<int32_t>> WriteTowerMessages(const LayerContext& context, const Pna& pna, MessageWriter* write) {
  VICINAL_ASSIGN_OR_RETURN(const std::vector<PnaProduct> products, FirstProducts(context, pna));
  const int32_t x_i = write->Target(0), x_j = write->Source(0);
  const auto product_of = [&](int32_t of_target, int32_t of_source, const PnaProduct& product) {
    std::vector<int32_t> parts = {of_target, of_source};
    if (pna.features > 0) parts.push_back(write->Features(pna.features));
    return write->Linear(write->Concat(std::move(parts)), product.weight, product.bias);
  };
  int32_t all = -1;
  if (!pna.divided) {
    std::vector<WeightRef> weights, biases;
    for (const PnaProduct& product : products) {
      weights.push_back(product.weight);
      biases.push_back(product.bias);
    }
    const PnaProduct stacked = {StackedColumns(context, weights, 0, 2 * pna.in + pna.features),
                                Joined(context, biases)};
    all = product_of(x_i, x_j, pna.towers > 1 ? stacked : products[0]);
  }
  std::vector<int32_t> messages;
  for (int64_t tower = 0; tower < pna.towers; ++tower) {
    const int64_t first = tower * pna.in;
    int32_t value =
        pna.divided ? product_of(write->Slice(x_i, first, pna.in), write->Slice(x_j, first, pna.in), products[tower])
                    : write->Slice(all, first, pna.in);
    for (int64_t layer = 1; layer < context.args.Int("pre_layers"); ++layer) {
      VICINAL_ASSIGN_OR_RETURN(const PnaProduct next,
                               ReadPnaProduct(context, PnaNameOf("pre_nns", tower, layer), pna.in, pna.in));
      value = write->Linear(write->Activate(value, pna.act), next.weight, next.bias);
    }
    messages.push_back(value);
  }
  return messages;
}

// The factor of a scaler other than identity: degrees below 1 count as 1 where they divide.
int32_t ScalerFactor(const Pna& pna, int scaler, MessageWriter* write) {
  const int32_t degree = write->Degree(), one = write->Number(1.0);
  const int32_t some = write->Binary(EdgeOp::kMax, degree, one);
  switch (scaler) {
    case 1:
      return write->Multiply(write->Log(write->Add(degree, one)), write->Number(1.0 / pna.mean_log_degree));
    case 2:
      return write->Binary(EdgeOp::kDivide, write->Number(pna.mean_log_degree), write->Log(write->Add(some, one)));
    case 3:
      return write->Multiply(degree, write->Number(1.0 / pna.mean_degree));
    default:
      return write->Binary(EdgeOp::kDivide, write->Number(pna.mean_degree), some);
  }
}

// post's columns of x, and of each scaler's reductions, one below the other.
PnaProduct PostOfNode(const LayerContext& context, const Pna& pna, const PnaProduct& post) {
  return {StackedColumns(context, {post.weight}, 0, pna.in), post.bias};
}
WeightRef PostOfScalers(const LayerContext& context, const Pna& pna, const WeightRef& post) {
  const int64_t count = static_cast<int64_t>(pna.reductions.size()) * pna.in, stride = post->shape[1];
  const auto scalers = static_cast<int64_t>(pna.scalers.size());
  return context.tensors.Make("scalers of " + post->name, {scalers * pna.out, count}, [&](auto& values) {
    auto out = values.begin();
    for (int64_t s = 0; s < scalers; ++s) {
      for (int64_t r = 0; r < pna.out; ++r)
        out = std::copy_n(post->values.begin() + r * stride + pna.in + s * count, count, out);
    }
  });
}

// A tower's result from x and `reduced`, its reductions side by side.
StatusOr<int32_t> WriteTower(const LayerContext& context, const Pna& pna, int64_t tower, int32_t reduced,
                             MessageWriter* write) {
  const auto columns = static_cast<int64_t>(pna.reductions.size() * pna.scalers.size() + 1) * pna.in;
  VICINAL_ASSIGN_OR_RETURN(const PnaProduct post,
                           ReadPnaProduct(context, PnaNameOf("post_nns", tower, 0), pna.out, columns));
  const PnaProduct of_node = PostOfNode(context, pna, post);
  const int32_t x = pna.divided ? write->Slice(write->Target(0), tower * pna.in, pna.in) : write->Target(0);
  const int32_t scaled = write->Linear(reduced, PostOfScalers(context, pna, post.weight));
  int32_t value = write->Linear(x, of_node.weight, of_node.bias);
  for (size_t s = 0; s < pna.scalers.size(); ++s) {
    int32_t part = write->Slice(scaled, static_cast<int64_t>(s) * pna.out, pna.out);
    if (pna.scalers[s] != 0) part = write->Multiply(part, ScalerFactor(pna, pna.scalers[s], write));
    value = write->Add(value, part);
  }
  for (int64_t layer = 1; layer < context.args.Int("post_layers"); ++layer) {
    VICINAL_ASSIGN_OR_RETURN(const PnaProduct next,
                             ReadPnaProduct(context, PnaNameOf("post_nns", tower, layer), pna.out, pna.out));
    value = write->Linear(write->Activate(value, pna.act), next.weight, next.bias);
  }
  return value;
}

StatusOr<ValueId> LowerPna(const LayerContext& context) {
  VICINAL_ASSIGN_OR_RETURN(const Pna pna, ReadPna(context));
  MessageWriter write(context);
  MessageDeclaration declaration;
  declaration.edge_width = pna.features;
  VICINAL_ASSIGN_OR_RETURN(const std::vector<int32_t> messages, WriteTowerMessages(context, pna, &write));
  for (const int32_t message : messages) {
    for (const int reduction : pna.reductions)
      declaration.results.push_back({static_cast<EdgeReduce>(reduction), message, -1});
  }
  const int64_t reduced = static_cast<int64_t>(pna.reductions.size()) * pna.in;
  const int32_t all = write.Aggregate(pna.towers * reduced);
  std::vector<int32_t> results;
  for (int64_t tower = 0; tower < pna.towers; ++tower) {
    const int32_t own = write.Slice(all, tower * reduced, reduced);
    VICINAL_ASSIGN_OR_RETURN(const int32_t result, WriteTower(context, pna, tower, own, &write));
    results.push_back(result);
  }
  declaration.update = write.Concat(std::move(results));
  const int64_t out = pna.towers * pna.out;
  VICINAL_ASSIGN_OR_RETURN(const PnaProduct last, ReadPnaProduct(context, "lin", out, out));
  VICINAL_ASSIGN_OR_RETURN(const ValueId towers, write.Lower(declaration));
  return context.steps.Emit(LinearStep{last.weight, last.bias}, {towers}, out);
}

}  // namespace

LayerType PnaConv() {
  LayerType type;
  type.name = "PNAConv";
  type.arguments = {InChannelsArgument("in_channels"),
                    RequiredIntArgument("out_channels", 1, kMaxExpressionWidth),
                    AnyArgument("aggregators", nullptr),
                    AnyArgument("scalers", nullptr),
                    IgnoredArgument("deg"),
                    EdgeDimArgument(),
                    IntArgument("towers", 1, 1, kMostPnaTowers),
                    IntArgument("pre_layers", 1, 1, kMostPnaLayers),
                    IntArgument("post_layers", 1, 1, kMostPnaLayers),
                    BoolArgument("divide_input", false),
                    AnyArgument("act", "relu"),
                    AnyArgument("act_kwargs", nullptr),
                    IgnoredArgument("train_norm")};
  AddArguments(MessagePassingArguments(false), &type.arguments);
  type.convolution = true;
  type.lower = LowerPna;
  return type;
}

}  // namespace vicinal::internal

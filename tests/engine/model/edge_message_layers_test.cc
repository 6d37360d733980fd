// SPDX-License-Identifier: Apache-2.0
// Layers whose messages are functions of both ends and of the edge's features: the steps and weights that their
// arguments give, and what is refused.
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "tests/engine/model/model_testing.h"

namespace vicinal {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::ExpectRefused;
using ::testing::FloatEq;
using testing::LoadOrFail;
using testing::NamesOfSteps;
using testing::SafetensorsBuilder;

std::string OfOneMessageLayer(const std::string& type, const std::string& args, int width = 2) {
  return testing::OfOneLayer(type, args, width);
}

const EdgeMessageStep& MessagesOf(const Model& model) {
  for (const Step& step : model.steps) {
    if (const auto* messages = std::get_if<EdgeMessageStep>(&step.op)) return *messages;
  }
  ADD_FAILURE() << "no messages";
  static const EdgeMessageStep none;
  return none;
}

const LinearStep& LinearOf(const Model& model, size_t step) { return std::get<LinearStep>(model.steps[step].op); }

// Elements of a ramp are its first one and multiples of a step, so that they tell where they stood.
TEST(CgConvTest, ColumnsOfTargetSourceAndFeatures) {
  const auto model = LoadOrFail(OfOneMessageLayer("CGConv", R"("dim": 1)"), SafetensorsBuilder()
                                                                                .AddRamp("c.lin_f.weight", {2, 5})
                                                                                .AddRamp("c.lin_f.bias", {2})
                                                                                .AddRamp("c.lin_s.weight", {2, 5})
                                                                                .AddRamp("c.lin_s.bias", {2}));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "linear", "edge_message", "add"));
  EXPECT_EQ(model->edge_feature_width, 1);
  const std::vector<float>& whole = LinearOf(*model, 0).weight->values;
  const float unit = whole[1] - whole[0];
  const auto at = [&](int row, int column) { return whole[0] + unit * static_cast<float>(5 * row + column); };
  EXPECT_THAT(whole, ElementsAre(at(0, 0), at(0, 1), at(1, 0), at(1, 1), at(0, 0), at(0, 1), at(1, 0), at(1, 1)));
  EXPECT_NE(LinearOf(*model, 0).bias, nullptr);
  EXPECT_THAT(LinearOf(*model, 1).weight->values,
              ElementsAre(at(0, 2), at(0, 3), at(1, 2), at(1, 3), at(0, 2), at(0, 3), at(1, 2), at(1, 3)));
  EXPECT_EQ(LinearOf(*model, 1).bias, nullptr);
  const EdgeMessageStep& messages = MessagesOf(*model);
  EXPECT_THAT(messages.edge_weight->values, ElementsAre(at(0, 4), at(1, 4), at(0, 4), at(1, 4)));
  EXPECT_EQ(messages.function, EdgeFunction::kGated);
  EXPECT_EQ(messages.gate.kind, ActivationKind::kSigmoid);
  EXPECT_EQ(messages.activation, (Activation{ActivationKind::kSoftplus, 20.0f}));
  EXPECT_THAT(model->steps[2].inputs, ElementsAre(2, 1));  // u of the source, v of the target
}

TEST(CgConvTest, WithoutFeaturesAndWithBatchNorm) {
  const auto model = LoadOrFail(OfOneMessageLayer("CGConv", R"("bias": false, "batch_norm": true, "aggr": "mean")"),
                                SafetensorsBuilder()
                                    .AddRamp("c.lin_f.weight", {2, 4})
                                    .AddRamp("c.lin_s.weight", {2, 4})
                                    .AddRamp("c.bn.weight", {2})
                                    .AddRamp("c.bn.bias", {2})
                                    .AddRamp("c.bn.running_mean", {2})
                                    .AddRamp("c.bn.running_var", {2}, 1.0f));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "linear", "edge_message", "batch_norm", "add"));
  EXPECT_EQ(model->edge_feature_width, 0);
  EXPECT_EQ(MessagesOf(*model).reduce, Reduce::kMean);
  EXPECT_EQ(MessagesOf(*model).edge_weight, nullptr);
}

TEST(CgConvTest, RefusesArguments) {
  ExpectRefused(OfOneMessageLayer("CGConv", R"("channels": 3)"), "BAD_ARCHITECTURE", "layers[0].args.channels", "3");
  ExpectRefused(OfOneMessageLayer("CGConv", R"("dim": -1)"), "BAD_ARCHITECTURE", "layers[0].args.dim", "within 0 and");
  ExpectRefused(OfOneMessageLayer("CGConv", R"("aggr": "median")"), "UNSUPPORTED_ARGUMENT", "layers[0].args.aggr",
                "median");
  ExpectRefused(OfOneMessageLayer("CGConv", R"("dim": 3)"), "TENSOR_MISSING", "c.lin_f.weight", "[2, 7]");
}

SafetensorsBuilder ResGatedWeights(int64_t in, int64_t out) {
  SafetensorsBuilder weights;
  for (const char* name : {"key", "query", "value"}) {
    weights.AddRamp(std::string("c.lin_") + name + ".weight", {out, in});
    weights.AddRamp(std::string("c.lin_") + name + ".bias", {out});
  }
  return weights;
}

TEST(ResGatedGraphConvTest, KeysAreOfTheGateAlone) {
  const auto plain = LoadOrFail(OfOneMessageLayer("ResGatedGraphConv", R"("out_channels": 3)"),
                                ResGatedWeights(2, 3).AddRamp("c.lin_skip.weight", {3, 2}).AddRamp("c.bias", {3}));
  EXPECT_THAT(NamesOfSteps(*plain), ElementsAre("linear", "linear", "edge_message", "linear", "add", "bias"));
  EXPECT_THAT(LinearOf(*plain, 0).weight->shape, ElementsAre(3, 2));
  EXPECT_THAT(LinearOf(*plain, 1).weight->shape, ElementsAre(6, 2));
  EXPECT_THAT(plain->steps[2].inputs, ElementsAre(2, 1));
  EXPECT_EQ(MessagesOf(*plain).gate.kind, ActivationKind::kSigmoid);
  EXPECT_EQ(MessagesOf(*plain).activation.kind, ActivationKind::kNone);
  EXPECT_EQ(plain->edge_feature_width, 0);
  const auto featured = LoadOrFail(
      OfOneMessageLayer("ResGatedGraphConv",
                        R"("out_channels": 1, "edge_dim": 2, "root_weight": false, "bias": false, "act": "relu")"),
      ResGatedWeights(4, 1));
  EXPECT_THAT(NamesOfSteps(*featured), ElementsAre("linear", "linear", "edge_message"));
  EXPECT_EQ(MessagesOf(*featured).gate.kind, ActivationKind::kRelu);
  // Key's and query's columns of the features, added up, then value's: all three weights are the same ramp.
  const std::vector<float>& edge = MessagesOf(*featured).edge_weight->values;
  ASSERT_EQ(edge.size(), 4u);
  EXPECT_FLOAT_EQ(edge[0], 2 * edge[2]);
  EXPECT_FLOAT_EQ(edge[1], 2 * edge[3]);
  EXPECT_NE(edge[2], edge[3]);
}

TEST(ResGatedGraphConvTest, RefusesArguments) {
  ExpectRefused(OfOneMessageLayer("ResGatedGraphConv", R"("out_channels": 3, "act": "prelu")"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.act", "'prelu', which is not supported");
  ExpectRefused(OfOneMessageLayer("ResGatedGraphConv", R"("out_channels": 3, "act": "selu")"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.act", "SELU");
  ExpectRefused(OfOneMessageLayer("ResGatedGraphConv", ""), "BAD_ARCHITECTURE", "layers[0].args.out_channels",
                "out_channels");
}

constexpr char kPlainMlp[] = R"("num_layers": 1, "norm": null)";

TEST(GenConvTest, AggregationsOfMessages) {
  const auto softmax =
      LoadOrFail(OfOneMessageLayer("GENConv", std::string(R"("out_channels": 2, "t": 0.5, )") + kPlainMlp),
                 SafetensorsBuilder().AddRamp("c.mlp.0.weight", {2, 2}));
  EXPECT_THAT(NamesOfSteps(*softmax), ElementsAre("bias", "edge_message", "add", "linear"));
  EXPECT_TRUE(MessagesOf(*softmax).softmax);
  EXPECT_EQ(MessagesOf(*softmax).temperature, 0.5);
  EXPECT_EQ(MessagesOf(*softmax).activation,
            (Activation{ActivationKind::kClamp, 1e-7f, std::numeric_limits<float>::infinity()}));
  EXPECT_THAT(std::get<BiasStep>(softmax->steps[0].op).bias->values, Each(1e-7f));
  const auto mean =
      LoadOrFail(OfOneMessageLayer("GENConv", std::string(R"("out_channels": 2, "aggr": "power", )") + kPlainMlp),
                 SafetensorsBuilder().AddRamp("c.mlp.0.weight", {2, 2}));
  EXPECT_THAT(NamesOfSteps(*mean), ElementsAre("bias", "activation", "propagate", "add", "linear"));
  EXPECT_EQ(std::get<PropagateStep>(mean->steps[2].op).reduce, Reduce::kMean);
}

TEST(GenConvTest, ProductsWhereWidthsDiffer) {
  const auto model = LoadOrFail(
      OfOneMessageLayer(
          "GENConv", std::string(R"("out_channels": 3, "edge_dim": 4, "learn_t": true, "bias": true, )") + kPlainMlp),
      SafetensorsBuilder()
          .AddRamp("c.lin_src.weight", {3, 2})
          .AddRamp("c.lin_src.bias", {3})
          .AddRamp("c.lin_dst.weight", {3, 2})
          .AddRamp("c.lin_dst.bias", {3})
          .AddRamp("c.lin_edge.weight", {3, 4})
          .AddRamp("c.lin_edge.bias", {3})
          .AddRamp("c.aggr_module.t", {1})
          .AddRamp("c.mlp.0.weight", {3, 3})
          .AddRamp("c.mlp.0.bias", {3}));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "bias", "edge_message", "linear", "add", "linear"));
  EXPECT_EQ(model->edge_feature_width, 4);
  EXPECT_THAT(MessagesOf(*model).edge_weight->shape, ElementsAre(3, 4));
  const auto same = LoadOrFail(
      OfOneMessageLayer("GENConv", std::string(R"("out_channels": 2, "edge_dim": 2, "aggr": "max", )") + kPlainMlp),
      SafetensorsBuilder().AddRamp("c.mlp.0.weight", {2, 2}));
  EXPECT_EQ(MessagesOf(*same).edge_weight, nullptr);
  EXPECT_EQ(MessagesOf(*same).edge_width, 2);
  EXPECT_EQ(MessagesOf(*same).reduce, Reduce::kMax);
}

TEST(GenConvTest, RefusesArguments) {
  ExpectRefused(OfOneMessageLayer("GENConv", R"("out_channels": 2, "aggr": "powermean", "p": 2)"),
                "UNSUPPORTED_ARGUMENT", "layers[0].args.p", "supported: p 1");
  ExpectRefused(OfOneMessageLayer("GENConv", R"("out_channels": 2, "aggr": "power", "learn_p": true)"),
                "UNSUPPORTED_ARGUMENT", "layers[0].args.learn_p", "learned");
  ExpectRefused(OfOneMessageLayer("GENConv", R"("out_channels": 2, "norm": "instance")"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.norm", "supported: \"batch\"");
  ExpectRefused(OfOneMessageLayer("GENConv", R"("out_channels": 2, "aggr": "std")"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.aggr", "softmax");
  ExpectRefused(OfOneMessageLayer("GENConv", R"("out_channels": 2, "aggr": ["max", "mean"])"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.aggr", "aggr");
  ExpectRefused(OfOneMessageLayer("GENConv", R"("out_channels": 2, "aggr_kwargs": {"channels": 2})"),
                "UNSUPPORTED_ARGUMENT", "layers[0].args.aggr_kwargs", "aggr_kwargs");
}

TEST(GmmConvTest, SumsComeBeforeTheProductWhereTheInputIsNarrow) {
  const auto model = LoadOrFail(OfOneMessageLayer("GMMConv", R"("out_channels": 3, "dim": 2, "kernel_size": 2)"),
                                SafetensorsBuilder()
                                    .AddRamp("c.g", {2, 6}, 0.0f, 1.0f)
                                    .AddRamp("c.mu", {2, 2})
                                    .AddRamp("c.sigma", {2, 2})
                                    .AddRamp("c.root.weight", {3, 2})
                                    .AddRamp("c.bias", {3}));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("edge_message", "linear", "linear", "add", "bias"));
  const EdgeMessageStep& messages = MessagesOf(*model);
  EXPECT_EQ(messages.function, EdgeFunction::kOuter);
  EXPECT_EQ(messages.reduce, Reduce::kMean);
  EXPECT_EQ(messages.edge_width, 2);
  EXPECT_TRUE(messages.nn.empty());
  EXPECT_THAT(messages.gaussians.mean->values, ElementsAre(-0.5f, -0.375f, -0.25f, -0.125f));
  // -1 / (2 sigma^2) for the ramp's sigma, -1/2, -3/8, -1/4 and -1/8.
  EXPECT_THAT(messages.gaussians.scale->values, ElementsAre(-2, FloatEq(-32.0f / 9), -8, -32));
  // Part k of a row of g is columns 3 k to 3 k + 2; a column of the product's weight is a row of a part.
  const Weight& product = *LinearOf(*model, 1).weight;
  EXPECT_THAT(product.shape, ElementsAre(3, 4));
  for (int o = 0; o < 3; ++o) {
    for (int k = 0; k < 2; ++k) {
      for (int i = 0; i < 2; ++i)  // the builder's ramps begin again after 11 numbers
        EXPECT_EQ(product.values[o * 4 + k * 2 + i], static_cast<float>((6 * i + 3 * k + o) % 11));
    }
  }
}

// Extremes are of messages, and sums of a wide input are wider than its parts.
TEST(GmmConvTest, OtherwiseTheProductComesFirst) {
  const auto of = [](const std::string& args, int in, int out) {
    return LoadOrFail(OfOneMessageLayer("GMMConv", "\"out_channels\": " + std::to_string(out) + args, in),
                      SafetensorsBuilder()
                          .AddRamp("c.g", {in, 2 * out})
                          .AddRamp("c.mu", {2, 2})
                          .AddRamp("c.sigma", {2, 2})
                          .AddRamp("c.root.weight", {out, in})
                          .AddRamp("c.bias", {out}));
  };
  const std::string args = R"(, "dim": 2, "kernel_size": 2)";
  for (const auto& model : {of(args + R"(, "aggr": "max")", 2, 3), of(args, 4, 3)}) {
    EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "edge_message", "linear", "add", "bias"));
    EXPECT_EQ(MessagesOf(*model).function, EdgeFunction::kMixture);
    EXPECT_THAT(MessagesOf(*model).gaussians.mean->shape, ElementsAre(2, 2));
  }
}

TEST(GmmConvTest, RefusesArguments) {
  const std::string given = R"("out_channels": 3, "dim": 2, "kernel_size": 2)";
  ExpectRefused(OfOneMessageLayer("GMMConv", given + R"(, "separate_gaussians": true)"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.separate_gaussians", "separate_gaussians=False");
  ExpectRefused(OfOneMessageLayer("GMMConv", R"("out_channels": 3, "kernel_size": 2)"), "BAD_ARCHITECTURE",
                "layers[0].args.dim", "dim");
  ExpectRefused(OfOneMessageLayer("GMMConv", R"("out_channels": 16777216, "dim": 2, "kernel_size": 2)"),
                "BAD_ARCHITECTURE", "layers[0].args.kernel_size", "16777216");
}

// nn of a document: a hidden layer of 3, then in * out numbers.
std::string NnArgs(const std::string& last, const std::string& first = R"("in_channels": 4, )") {
  return R"("out_channels": 2, "nn": [{"type": "Linear", "args": {)" + first +
         R"("out_channels": 3}}, {"type": "ReLU"}, {"type": "Linear", "args": {)" + last + "}}]";
}

TEST(NnConvTest, TheLastLinearIsMultipliedPerNode) {
  const auto model =
      LoadOrFail(OfOneMessageLayer("NNConv", NnArgs(R"("out_channels": 4)")), SafetensorsBuilder()
                                                                                  .AddRamp("c.nn.0.weight", {3, 4})
                                                                                  .AddRamp("c.nn.0.bias", {3})
                                                                                  .AddRamp("c.nn.2.weight", {4, 3})
                                                                                  .AddRamp("c.nn.2.bias", {4})
                                                                                  .AddRamp("c.lin.weight", {2, 2})
                                                                                  .AddRamp("c.bias", {2}));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "edge_message", "linear", "add", "bias"));
  EXPECT_THAT(LinearOf(*model, 0).weight->shape, ElementsAre((3 + 1) * 2, 2));
  EXPECT_EQ(MessagesOf(*model).nn.size(), 2u);
  EXPECT_EQ(MessagesOf(*model).edge_width, 4);
  EXPECT_EQ(model->edge_feature_width, 4);
}

TEST(NnConvTest, RefusesNetworks) {
  ExpectRefused(OfOneMessageLayer("NNConv", NnArgs(R"("out_channels": 4)", "")), "BAD_ARCHITECTURE",
                "layers[0].args.nn[0]", "states in_channels");
  const std::string weights = SafetensorsBuilder()
                                  .AddRamp("c.nn.0.weight", {3, 4})
                                  .AddRamp("c.nn.0.bias", {3})
                                  .AddRamp("c.nn.2.weight", {5, 3})
                                  .AddRamp("c.nn.2.bias", {5})
                                  .Build();
  ExpectRefused(OfOneMessageLayer("NNConv", NnArgs(R"("out_channels": 5)")), weights, "BAD_ARCHITECTURE",
                "layers[0].args.nn", "4 numbers; it gives 5");
  ExpectRefused(OfOneMessageLayer("NNConv", R"("out_channels": 2, "nn": [{"type": "Linear", "args": {"in_channels": 4,
                           "out_channels": 3}}, {"type": "ReLU"}])"),
                weights, "UNSUPPORTED_ARGUMENT", "layers[0].args.nn", "does not end with a Linear");
}

}  // namespace
}  // namespace vicinal

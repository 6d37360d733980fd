// SPDX-License-Identifier: Apache-2.0
// Small operators: activations, products, sums and concatenations of layers, MLP, and what the answers of a model mean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>

#include "engine/model/model.h"
#include "tests/engine/model/model_testing.h"
#include "tests/engine/model/safetensors_builder.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using testing::ExpectRefused;
using testing::LoadOrFail;
using testing::NamesOfSteps;
using testing::SafetensorsBuilder;

std::string OfFour(const std::string& layers, const std::string& more = "") {
  return R"({"format": "vicinal.model/1", "in_channels": 4, "layers": [)" + layers + "]" + more + "}";
}

// A model of one layer "c" over 4 features.
std::string OneOfFour(const std::string& type, const std::string& args) {
  return OfFour(R"({"name": "c", "type": ")" + type + R"(", "args": {)" + args + "}}");
}

Activation ActivationOf(const std::string& type, const std::string& args = "") {
  const auto model = LoadOrFail(OneOfFour(type, args));
  return std::get<ActivationStep>(model->steps.at(0).op).activation;
}

TEST(ActivationLayersTest, AreOneStepWhereAKindHasThem) {
  EXPECT_EQ(ActivationOf("SiLU"), (Activation{ActivationKind::kSilu}));
  EXPECT_EQ(ActivationOf("GELU"), (Activation{ActivationKind::kGelu}));
  EXPECT_EQ(ActivationOf("GELU", R"("approximate": "tanh")"), (Activation{ActivationKind::kGeluTanh}));
  EXPECT_EQ(ActivationOf("Softplus"), (Activation{ActivationKind::kSoftplus, 20.0f}));
  EXPECT_EQ(ActivationOf("ReLU6", R"("inplace": true)"), (Activation{ActivationKind::kClamp, 0.0f, 6.0f}));
  EXPECT_EQ(ActivationOf("Hardtanh"), (Activation{ActivationKind::kClamp, -1.0f, 1.0f}));
  EXPECT_EQ(ActivationOf("Threshold", R"("threshold": 0.5, "value": -2)"),
            (Activation{ActivationKind::kThreshold, 0.5f, -2.0f}));
  EXPECT_EQ(ActivationOf("RReLU", R"("lower": 0.25, "upper": 0.75)"), (Activation{ActivationKind::kLeakyRelu, 0.5f}));
}

TEST(ActivationLayersTest, OthersAreMadeOfSteps) {
  EXPECT_THAT(NamesOfSteps(*LoadOrFail(OneOfFour("SELU", ""))), ElementsAre("activation", "scale"));
  EXPECT_THAT(NamesOfSteps(*LoadOrFail(OneOfFour("CELU", R"("alpha": 2)"))),
              ElementsAre("scale", "activation", "scale"));
  EXPECT_THAT(NamesOfSteps(*LoadOrFail(OneOfFour("CELU", ""))), ElementsAre("activation"));
  EXPECT_THAT(NamesOfSteps(*LoadOrFail(OneOfFour("Softplus", R"("beta": 4)"))),
              ElementsAre("scale", "activation", "scale"));
  EXPECT_THAT(NamesOfSteps(*LoadOrFail(OneOfFour("GLU", ""))), ElementsAre("slice", "slice", "activation", "multiply"));
  EXPECT_EQ(LoadOrFail(OneOfFour("GLU", ""))->class_count, 2);
  EXPECT_THAT(NamesOfSteps(*LoadOrFail(OneOfFour("Softmin", R"("dim": -1)"))), ElementsAre("scale", "softmax"));
  EXPECT_FALSE(std::get<SoftmaxStep>(LoadOrFail(OneOfFour("Softmax", ""))->steps[0].op).logarithm);
  EXPECT_TRUE(std::get<SoftmaxStep>(LoadOrFail(OneOfFour("LogSoftmax", ""))->steps[0].op).logarithm);
}

TEST(ActivationLayersTest, PreluHasOneSlopeOrOnePerColumn) {
  const auto one = LoadOrFail(OneOfFour("PReLU", R"("init": 0.1)"), SafetensorsBuilder().AddRamp("c.weight", {1}));
  EXPECT_EQ(std::get<ActivationStep>(one->steps[0].op).activation.kind, ActivationKind::kLeakyRelu);
  const auto each =
      LoadOrFail(OneOfFour("PReLU", R"("num_parameters": 4)"), SafetensorsBuilder().AddRamp("c.weight", {4}));
  EXPECT_THAT(NamesOfSteps(*each), ElementsAre("activation", "activation", "scale", "add"));
  const Activation below = std::get<ActivationStep>(each->steps[1].op).activation;
  EXPECT_EQ(below, (Activation{ActivationKind::kClamp, -std::numeric_limits<float>::infinity(), 0.0f}));
  ExpectRefused(OneOfFour("PReLU", R"("num_parameters": 3)"), "BAD_ARCHITECTURE", "layers[0].args.num_parameters",
                "must be 1 or 4");
}

TEST(ActivationLayersTest, RefuseArguments) {
  ExpectRefused(OneOfFour("Softmax", R"("dim": 0)"), "UNSUPPORTED_ARGUMENT", "layers[0].args.dim", "only rows");
  ExpectRefused(OneOfFour("Threshold", R"("threshold": 1)"), "BAD_ARCHITECTURE", "layers[0].args.value",
                "needs the argument 'value'");
  ExpectRefused(OneOfFour("Hardtanh", R"("min_val": 1)"), "BAD_ARCHITECTURE", "layers[0].args.max_val",
                "min_val < max_val");
  ExpectRefused(OneOfFour("RReLU", R"("lower": 0.9)"), "BAD_ARCHITECTURE", "layers[0].args.upper", "lower <= upper");
  ExpectRefused(OneOfFour("GELU", R"("approximate": "sigmoid")"), "UNSUPPORTED_ARGUMENT", "layers[0].args.approximate",
                "supported: none, tanh");
  ExpectRefused(OfFour(R"({"name": "c", "type": "Linear", "args": {"out_channels": 3}}, {"name": "g", "type": "GLU"})"),
                SafetensorsBuilder().AddRamp("c.weight", {3, 4}).AddRamp("c.bias", {3}).Build(), "BAD_ARCHITECTURE",
                "layers[1]", "3 columns, an odd number");
}

TEST(OperatorsTest, MultiplyScaleAndJoin) {
  const auto model =
      LoadOrFail(OfFour(R"({"name": "a", "type": "ReLU"}, {"name": "m", "type": "Mul", "inputs": ["a", "x", "a"]},
    {"name": "s", "type": "Scale", "args": {"factor": -0.5}}, {"name": "c", "type": "Concat", "inputs": ["s", "x"]})"));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("activation", "multiply", "multiply", "scale", "concat"));
  EXPECT_EQ(std::get<ScaleStep>(model->steps[3].op).factor, -0.5);
  EXPECT_EQ(model->class_count, 8);
}

TEST(OperatorsTest, RefuseInputsAndArguments) {
  ExpectRefused(OfFour(R"({"name": "g", "type": "GLU"}, {"name": "m", "type": "Mul", "inputs": ["g", "x"]})"),
                "BAD_ARCHITECTURE", "layers[1].inputs", "inputs of one width, but they have 2 and 4");
  ExpectRefused(OfFour(R"({"name": "m", "type": "Mul"})"), "BAD_ARCHITECTURE", "layers[0].inputs", "it takes 2 to");
  ExpectRefused(OfFour(R"({"name": "m", "type": "Concat", "inputs": ["x"]})"), "BAD_ARCHITECTURE", "layers[0].inputs",
                "it takes 2 to");
  ExpectRefused(OfFour(R"({"name": "m", "type": "Concat", "inputs": ["x", "x"], "args": {"dim": 0}})"),
                "UNSUPPORTED_ARGUMENT", "layers[0].args.dim", "side by side");
  ExpectRefused(OneOfFour("Scale", ""), "BAD_ARCHITECTURE", "layers[0].args.factor", "needs the argument 'factor'");
}

SafetensorsBuilder MlpWeights() {
  return SafetensorsBuilder()
      .AddRamp("c.lins.0.weight", {3, 4})
      .AddRamp("c.lins.0.bias", {3})
      .AddRamp("c.lins.1.weight", {2, 3})
      .AddRamp("c.lins.1.bias", {2});
}

TEST(MlpTest, IsLinearNormActivation) {
  auto weights = MlpWeights();
  for (const char* name : {"weight", "bias", "running_mean", "running_var"})
    weights.AddRamp(std::string("c.norms.0.module.") + name, {3}, 0.5f);
  for (const char* args :
       {R"("channel_list": [4, 3, 2])", R"("num_layers": 2, "hidden_channels": 3, "out_channels": 2)",
        R"("channel_list": 4, "num_layers": 2, "hidden_channels": 3, "out_channels": 2)"}) {
    EXPECT_THAT(NamesOfSteps(*LoadOrFail(OneOfFour("MLP", args), weights)),
                ElementsAre("linear", "batch_norm", "activation", "linear"));
  }
  const auto first =
      LoadOrFail(OneOfFour("MLP", R"("channel_list": [4, 3, 2], "act_first": true, "act": "SiLU")"), weights);
  EXPECT_THAT(NamesOfSteps(*first), ElementsAre("linear", "activation", "batch_norm", "linear"));
  EXPECT_EQ(std::get<ActivationStep>(first->steps[1].op).activation.kind, ActivationKind::kSilu);
}

TEST(MlpTest, PartsMayBeLeftOut) {
  const auto plain =
      LoadOrFail(OneOfFour("MLP", R"("channel_list": [4, 3, 2], "norm": null, "act": null)"), MlpWeights());
  EXPECT_THAT(NamesOfSteps(*plain), ElementsAre("linear", "linear"));
  const auto whole =
      LoadOrFail(OneOfFour("MLP", R"("channel_list": [4, 3, 2], "norm": null, "plain_last": false, "act": "elu",
    "act_kwargs": {"alpha": 0.5}, "bias": [true, true])"),
                 MlpWeights());
  EXPECT_THAT(NamesOfSteps(*whole), ElementsAre("linear", "activation", "linear", "activation"));
  EXPECT_EQ(std::get<ActivationStep>(whole->steps[1].op).activation.slope, 0.5f);
}

TEST(MlpTest, RefusesArguments) {
  const std::string field = "layers[0].args.";
  ExpectRefused(OneOfFour("MLP", ""), "BAD_ARCHITECTURE", field + "num_layers", "needs channel_list, or num_layers");
  ExpectRefused(OneOfFour("MLP", R"("num_layers": 2, "out_channels": 2)"), "BAD_ARCHITECTURE",
                field + "hidden_channels", "more than one layer");
  ExpectRefused(OneOfFour("MLP", R"("channel_list": [4])"), "BAD_ARCHITECTURE", field + "channel_list",
                "2 to 1025 widths");
  ExpectRefused(OneOfFour("MLP", R"("channel_list": [4, 0])"), "BAD_ARCHITECTURE", field + "channel_list[1]",
                "a width");
  ExpectRefused(OneOfFour("MLP", R"("channel_list": [5, 2])"), "BAD_ARCHITECTURE", field + "channel_list[0]",
                "the input has 4 columns");
  ExpectRefused(OneOfFour("MLP", R"("channel_list": 5)"), "BAD_ARCHITECTURE", field + "channel_list",
                "width of the input, 4");
  ExpectRefused(OneOfFour("MLP", R"("channel_list": [4, 2], "out_channels": 2)"), "BAD_ARCHITECTURE",
                field + "channel_list", "one or the other");
  ExpectRefused(OneOfFour("MLP", R"("channel_list": [4, 3, 2], "bias": [true])"), "BAD_ARCHITECTURE", field + "bias",
                "a list of 2");
  ExpectRefused(OneOfFour("MLP", R"("channel_list": [4, 2], "bias": [1])"), "BAD_ARCHITECTURE", field + "bias",
                "true or false only");
  ExpectRefused(OneOfFour("MLP", R"("channel_list": [4, 3, 2], "act": "prelu")"), "UNSUPPORTED_ARGUMENT", field + "act",
                "'prelu', which is not supported");
  ExpectRefused(OneOfFour("MLP", R"("channel_list": [4, 3, 2], "norm": "pair_norm")"), "UNSUPPORTED_ARGUMENT",
                field + "norm", "supported: batch_norm");
  ExpectRefused(OneOfFour("MLP", R"("channel_list": [4, 3, 2], "act_kwargs": 3)"), "BAD_ARCHITECTURE",
                field + "act_kwargs", "an object");
  ExpectRefused(OneOfFour("MLP", R"("channel_list": [4, 3, 2], "norm": null, "act_kwargs": {"alpha": 1})"),
                MlpWeights().Build(), "BAD_ARCHITECTURE", field + "act_kwargs.alpha", "no argument 'alpha'");
}

TEST(TargetTest, SaysWhatAnswersMean) {
  const std::string relu = R"({"name": "a", "type": "ReLU"})";
  const auto with = [&](const char* more) { return LoadOrFail(OfFour(relu, more)); };
  for (const auto& model :
       {with(""), with(R"(, "target": "multi_class")"), with(R"(, "target": "multi_class", "multi_label": false)")}) {
    EXPECT_FALSE(model->multi_label);
    EXPECT_FALSE(model->regression);
  }
  EXPECT_TRUE(with(R"(, "target": "multi_label")")->multi_label);
  EXPECT_TRUE(with(R"(, "target": "multi_label", "multi_label": true)")->multi_label);
  EXPECT_TRUE(with(R"(, "target": "regression")")->regression);
  EXPECT_FALSE(with(R"(, "target": "regression")")->multi_label);
  ExpectRefused(OfFour(relu, R"(, "target": "ranking")"), "BAD_ARCHITECTURE", "target", "\"regression\"");
  ExpectRefused(OfFour(relu, R"(, "target": "regression", "multi_label": true)"), "BAD_ARCHITECTURE", "multi_label",
                "contradicts target");
}

}  // namespace
}  // namespace vicinal

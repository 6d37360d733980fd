// SPDX-License-Identifier: Apache-2.0
// Layers that weigh by a softmax: over the nodes of a graph (readouts), and over layers (JumpingKnowledge's lstm).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

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

std::string ReadoutOf(const std::string& type, const std::string& args) {
  return R"({"format": "vicinal.model/1", "in_channels": 3, "task": "graph", "layers": [{"name": "r", "type": ")" +
         type + R"(", "args": {)" + args + "}}]}";
}

constexpr char kGate[] = R"("gate_nn": [{"type": "Linear", "args": {"out_channels": 1}}])";
SafetensorsBuilder GateWeights(const std::string& name) {
  return SafetensorsBuilder().AddRamp(name + "weight", {1, 3}).AddRamp(name + "bias", {1});
}

TEST(AttentionalAggregationTest, WeighsNodes) {
  const auto model = LoadOrFail(ReadoutOf("AttentionalAggregation", kGate), GateWeights("r.gate_nn.0."));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "readout", "expand", "add", "activation", "readout", "linear",
                                                "multiply", "readout", "activation", "multiply", "linear", "multiply"));
  EXPECT_EQ(std::get<ReadoutStep>(model->steps[1].op).reduce, Reduce::kMax);
  EXPECT_EQ(model->class_count, 3);
  EXPECT_EQ(model->layers[0].locality, Locality::kGraph);
}

TEST(AttentionalAggregationTest, NamesNetworksAsPyGDoes) {
  const std::string linear = R"([{"type": "Linear", "prefix": "", "args": {"out_channels": 1}}])";
  LoadOrFail(ReadoutOf("AttentionalAggregation", R"("gate_nn": )" + linear), GateWeights("r.gate_nn."));
  const std::string mlp = R"([{"type": "MLP", PREFIX "args": {"channel_list": [3, 1]}}])";
  const auto with = [&](const char* prefix) { return std::string(mlp).replace(mlp.find("PREFIX"), 6, prefix); };
  LoadOrFail(ReadoutOf("AttentionalAggregation", R"("gate_nn": )" + with(R"("prefix": "",)")),
             GateWeights("r.gate_mlp.lins.0."));
  LoadOrFail(ReadoutOf("AttentionalAggregation", R"("gate_nn": )" + with("")), GateWeights("r.gate_nn.0.lins.0."));
  const auto both = GateWeights("r.gate_nn.").AddRamp("r.mlp.lins.0.weight", {1, 3}).AddRamp("r.mlp.lins.0.bias", {1});
  const auto model = LoadOrFail(
      ReadoutOf("AttentionalAggregation", R"("gate_nn": )" + linear + R"(, "nn": )" + with(R"("prefix": "",)")), both);
  EXPECT_EQ(model->class_count, 1);
}

TEST(AttentionalAggregationTest, RefusesArguments) {
  ExpectRefused(ReadoutOf("AttentionalAggregation", ""), "BAD_ARCHITECTURE", "layers[0].args.gate_nn", "needs");
  ExpectRefused(ReadoutOf("AttentionalAggregation", R"("gate_nn": {"type": "Linear"})"), "BAD_ARCHITECTURE",
                "layers[0].args.gate_nn", "must be a list");
  for (const char* layer : {R"({"type": 3, "prefix": ""})", R"({"type": "MLP", "prefix": 3})", "[]", "null"}) {
    SCOPED_TRACE(layer);
    const auto model = LoadModel(ReadoutOf("AttentionalAggregation", std::string(R"("gate_nn": [)") + layer + "]"),
                                 SafetensorsBuilder().Build());
    EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument);
  }
  ExpectRefused(ReadoutOf("AttentionalAggregation", R"("gate_nn": [{"type": "GCNConv"}])"), "BAD_ARCHITECTURE",
                "layers[0].args.gate_nn[0].type", "not supported inside another layer");
  ExpectRefused(ReadoutOf("AttentionalAggregation", R"("gate_nn": [{"type": "Linear", "args": {"out_channels": 2}}])"),
                SafetensorsBuilder().AddRamp("r.gate_nn.0.weight", {2, 3}).AddRamp("r.gate_nn.0.bias", {2}).Build(),
                "BAD_ARCHITECTURE", "layers[0].args.gate_nn", "must give 1, or 3");
}

TEST(SoftmaxAggregationTest, TemperatureIsGivenOrLearned) {
  const auto given = LoadOrFail(ReadoutOf("SoftmaxAggregation", R"("t": 0.5, "semi_grad": true)"));
  EXPECT_EQ(std::get<ScaleStep>(given->steps[0].op).factor, 0.5);
  const auto one =
      LoadOrFail(ReadoutOf("SoftmaxAggregation", R"("learn": true)"), SafetensorsBuilder().AddRamp("r.t", {1}));
  EXPECT_EQ(std::get<ScaleStep>(one->steps[0].op).factor, -0.5);
  const auto each = LoadOrFail(ReadoutOf("SoftmaxAggregation", R"("learn": true, "channels": 3)"),
                               SafetensorsBuilder().AddRamp("r.t", {3}));
  EXPECT_EQ(std::get<ScaleStep>(each->steps[0].op).weight->values.size(), 3);
  ExpectRefused(ReadoutOf("SoftmaxAggregation", R"("channels": 3)"), "BAD_ARCHITECTURE", "layers[0].args.channels",
                "channels without learn");
  ExpectRefused(ReadoutOf("SoftmaxAggregation", R"("learn": true, "channels": 2)"), "BAD_ARCHITECTURE",
                "layers[0].args.channels", "must be 1 or the width of its input, 3");
}

std::string Jump(const std::string& inputs, const std::string& args) {
  return R"({"format": "vicinal.model/1", "in_channels": 4, "layers": [{"name": "a", "type": "ReLU"},
    {"name": "j", "type": "JumpingKnowledge", "inputs": [)" +
         inputs + R"(], "args": {"mode": "lstm")" + args + "}}]}";
}

SafetensorsBuilder LstmWeights(int64_t hidden) {
  SafetensorsBuilder weights;
  for (const char* suffix : {"", "_reverse"}) {
    weights.AddRamp(std::string("j.lstm.weight_ih_l0") + suffix, {4 * hidden, 4});
    weights.AddRamp(std::string("j.lstm.weight_hh_l0") + suffix, {4 * hidden, hidden});
    weights.AddRamp(std::string("j.lstm.bias_ih_l0") + suffix, {4 * hidden});
    weights.AddRamp(std::string("j.lstm.bias_hh_l0") + suffix, {4 * hidden});
  }
  return weights.AddRamp("j.att.weight", {1, 2 * hidden}).AddRamp("j.att.bias", {1});
}

TEST(JumpingLstmTest, WeighsLayersPerNode) {
  const auto model = LoadOrFail(Jump(R"("x", "a")", R"(, "channels": 4, "num_layers": 2)"), LstmWeights(4));
  EXPECT_EQ(model->class_count, 4);
  EXPECT_EQ(model->layers[1].locality, Locality::kNode);
  const auto names = NamesOfSteps(*model);
  EXPECT_EQ(std::count(names.begin(), names.end(), "softmax"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "slice"), 2);
  // Two directions of four gates: the first cell has no forget gate, and its state no products.
  EXPECT_EQ(std::count(names.begin(), names.end(), "linear"), 2 * (3 + 8) + 2 + 2);
}

TEST(JumpingLstmTest, RefusesArgumentsAndInputs) {
  ExpectRefused(Jump(R"("x", "a")", ""), "BAD_ARCHITECTURE", "layers[1].args.channels", "needs channels");
  ExpectRefused(Jump(R"("x", "a")", R"(, "channels": 4)"), "BAD_ARCHITECTURE", "layers[1].args.num_layers",
                "needs num_layers");
  ExpectRefused(Jump(R"("x", "a")", R"(, "channels": 3, "num_layers": 2)"), "BAD_ARCHITECTURE",
                "layers[1].args.channels", "inputs have 4 columns");
  ExpectRefused(Jump(R"("x", "a")", R"(, "channels": 4, "num_layers": 2)"), LstmWeights(2).Build(), "TENSOR_SHAPE",
                "j.lstm.weight_ih_l0", "[16, 4]");
  std::string many = R"("x")";
  for (int i = 0; i < 512; ++i) many += R"(, "x")";
  ExpectRefused(Jump(many, R"(, "channels": 4, "num_layers": 2)"), "BAD_ARCHITECTURE", "layers[1].inputs",
                "at most 512");
}

}  // namespace
}  // namespace vicinal

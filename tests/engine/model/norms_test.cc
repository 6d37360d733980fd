// SPDX-License-Identifier: Apache-2.0
// Norms that are made of several steps: over the nodes of a graph, and of each row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// A model of one layer "n" over 3 features, between `before` and `more`.
std::string NormModel(const std::string& type, const std::string& args, const std::string& before = "",
                      const std::string& more = "") {
  return R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [)" + before + R"({"name": "n", "type": ")" +
         type + R"(", "args": {)" + args + "}}" + more + "}";
}
std::string NodeNorm(const std::string& type, const std::string& args) { return NormModel(type, args, "", "]"); }

TEST(GraphNormTest, CentresAndScalesColumns) {
  const auto weights =
      SafetensorsBuilder().AddRamp("n.mean_scale", {3}).AddRamp("n.weight", {3}).AddRamp("n.bias", {3});
  const auto model = LoadOrFail(NodeNorm("GraphNorm", R"("eps": 0.01)"), weights);
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("readout", "scale", "expand", "add", "multiply", "readout",
                                                "activation", "scale", "expand", "multiply", "bias"));
  EXPECT_EQ(model->layers[0].locality, Locality::kGraph);
  EXPECT_EQ(std::get<ActivationStep>(model->steps[6].op).activation, (Activation{ActivationKind::kInverseRoot, 0.01f}));
  ExpectRefused(NodeNorm("GraphNorm", R"("in_channels": 4)"), "BAD_ARCHITECTURE", "layers[0].args.in_channels",
                "3 columns");
}

TEST(InstanceNormTest, MayHaveWeights) {
  const std::vector<std::string> plain = {"readout", "expand",     "add",    "multiply",
                                          "readout", "activation", "expand", "multiply"};
  EXPECT_EQ(NamesOfSteps(*LoadOrFail(NodeNorm("InstanceNorm", ""))), plain);
  const auto weights = SafetensorsBuilder().AddRamp("n.weight", {3}).AddRamp("n.bias", {3});
  EXPECT_EQ(LoadOrFail(NodeNorm("InstanceNorm", R"("affine": true)"), weights)->steps.size(), plain.size() + 2);
  ExpectRefused(NodeNorm("InstanceNorm", R"("track_running_stats": true)"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.track_running_stats", "use BatchNorm");
}

TEST(PairNormTest, HasOneDivisorPerGraph) {
  const auto model = LoadOrFail(NodeNorm("PairNorm", R"("scale": 2)"));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("readout", "expand", "add", "multiply", "readout", "linear",
                                                "activation", "linear", "expand", "multiply"));
  EXPECT_EQ(std::get<LinearStep>(model->steps[7].op).weight->values, (std::vector<float>{2, 2, 2}));
  ExpectRefused(NodeNorm("PairNorm", R"("scale_individually": true)"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.scale_individually", "one divisor");
}

TEST(GraphNormTest, NeedsNodesAndNoBatchInside) {
  for (const char* type : {"GraphNorm", "InstanceNorm", "PairNorm"}) {
    ExpectRefused(NormModel(type, "", R"({"name": "p", "type": "global_add_pool"},)", R"(], "task": "graph")"),
                  "BAD_ARCHITECTURE", "layers[1].inputs", "one row per graph");
    ExpectRefused(R"({"format": "vicinal.model/1", "in_channels": 3, "task": "graph", "layers": [
      {"name": "c", "type": "GINConv", "args": {"nn": [{"type": ")" +
                      std::string(type) + R"("}]}}]})",
                  "UNSUPPORTED_ARGUMENT", "layers[0].args.nn[0]", "would mix the graphs of a batch");
  }
}

TEST(RmsNormTest, ScalesRows) {
  const auto model = LoadOrFail(NodeNorm("RMSNorm", ""), SafetensorsBuilder().AddRamp("n.weight", {3}));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("multiply", "linear", "activation", "linear", "multiply", "scale"));
  EXPECT_EQ(std::get<ActivationStep>(model->steps[2].op).activation.slope, 0x1p-23f);
  EXPECT_EQ(model->layers[0].locality, Locality::kNode);
  const auto plain = LoadOrFail(NodeNorm("RMSNorm", R"("eps": 0.5, "elementwise_affine": false)"));
  EXPECT_EQ(std::get<ActivationStep>(plain->steps[2].op).activation.slope, 0.5f);
  EXPECT_EQ(plain->steps.size(), 5);
  ExpectRefused(NodeNorm("RMSNorm", R"("normalized_shape": 2)"), "BAD_ARCHITECTURE", "layers[0].args.normalized_shape",
                "3 columns");
}

// Constants have no tensor that would bound them: a short document must not take all memory.
TEST(RmsNormTest, ConstantsAreSharedAndBounded) {
  std::string layers;
  for (int i = 0; i < 100; ++i) {
    layers += R"({"name": "n)" + std::to_string(i) + R"(", "type": "RMSNorm", "args": {"elementwise_affine": false}},)";
  }
  layers.pop_back();
  const auto document = [&](int64_t width) {
    return R"({"format": "vicinal.model/1", "in_channels": )" + std::to_string(width) + R"(, "layers": [)" + layers +
           "]}";
  };
  const auto model = LoadOrFail(document(100'000));
  EXPECT_LT(model->size_bytes, 4'000'000);
  ExpectRefused(document(16'000'000), "BAD_ARCHITECTURE", "layers[0]", "more than 16 Mi numbers");
}

TEST(MessageNormTest, TakesTwoInputsOfOneWidth) {
  const auto weights = SafetensorsBuilder().AddRamp("n.scale", {1}).AddRamp("l.weight", {3, 3}).AddRamp("l.bias", {3});
  const std::string document = R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [
    {"name": "l", "type": "Linear", "args": {"out_channels": WIDTH}},
    {"name": "n", "type": "MessageNorm", "inputs": ["x", "l"]}]})";
  const auto with_width = [&](const char* width) {
    return std::string(document).replace(document.find("WIDTH"), 5, width);
  };
  const auto model = LoadOrFail(with_width("3"), weights);
  EXPECT_THAT(NamesOfSteps(*model),
              ElementsAre("linear", "normalize", "multiply", "linear", "activation", "linear", "multiply", "scale"));
  EXPECT_EQ(std::get<ScaleStep>(model->steps[7].op).factor, -0.5);
  ExpectRefused(with_width("2"), SafetensorsBuilder().AddRamp("l.weight", {2, 3}).AddRamp("l.bias", {2}).Build(),
                "BAD_ARCHITECTURE", "layers[1].inputs", "have 3 and 2 columns");
  ExpectRefused(NodeNorm("MessageNorm", ""), "BAD_ARCHITECTURE", "layers[0].inputs", "it takes 2");
}

TEST(DiffGroupNormTest, FoldsTheNormsOfGroups) {
  const auto weights = SafetensorsBuilder()
                           .Add("n.lin.weight", {2, 3}, {1, 2, 3, 4, 5, 6})
                           .Add("n.norm.running_mean", {6}, {1, 1, 1, 2, 2, 2})
                           .Add("n.norm.running_var", {6}, {0.75f, 3.75f, 0.75f, 0.75f, 0.75f, 0.75f});
  const auto model =
      LoadOrFail(NodeNorm("DiffGroupNorm", R"("groups": 2, "lamda": 0.5, "affine": false, "eps": 0.25)"), weights);
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "softmax", "linear", "multiply", "add", "bias"));
  EXPECT_EQ(std::get<LinearStep>(model->steps[2].op).weight->values, (std::vector<float>{1, 1, 0.5f, 1, 1, 1}));
  EXPECT_EQ(std::get<BiasStep>(model->steps[5].op).bias->values, (std::vector<float>{-1.5f, -1.25f, -1.5f}));
  ExpectRefused(NodeNorm("DiffGroupNorm", ""), "BAD_ARCHITECTURE", "layers[0].args.groups", "needs");
  ExpectRefused(NodeNorm("DiffGroupNorm", R"("groups": 1, "affine": false)"),
                SafetensorsBuilder()
                    .AddRamp("n.lin.weight", {1, 3})
                    .AddRamp("n.norm.running_mean", {3})
                    .Add("n.norm.running_var", {3}, {1, -1, 1})
                    .Build(),
                "TENSOR_VALUE", "n.norm.running_var", "negative variance");
}

}  // namespace
}  // namespace vicinal

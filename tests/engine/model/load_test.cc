// SPDX-License-Identifier: Apache-2.0
// LoadModel as a client meets it: what a good document becomes, and for each way to be wrong its reason, field and
// sentence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "tests/engine/model/model_testing.h"
#include "tests/engine/model/safetensors_builder.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using testing::ExpectRefused;
using testing::SafetensorsBuilder;

constexpr char kGcn[] = R"({
  "format": "vicinal.model/1", "in_channels": 3,
  "layers": [
    {"name": "conv1", "type": "GCNConv", "args": {"in_channels": 3, "out_channels": 4}},
    {"name": "act", "type": "ReLU"},
    {"name": "conv2", "type": "GCNConv", "args": {"in_channels": 4, "out_channels": 2}}
  ]})";

SafetensorsBuilder GcnWeights() {
  return SafetensorsBuilder()
      .AddRamp("conv1.lin.weight", {4, 3})
      .AddRamp("conv1.bias", {4})
      .AddRamp("conv2.lin.weight", {2, 4})
      .AddRamp("conv2.bias", {2});
}

std::string Layers(const std::string& layers, const std::string& more = "") {
  return R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [)" + layers + "]" + more + "}";
}

void ExpectBadLayers(const std::string& layers, const std::string& field, const std::string& message) {
  ExpectRefused(Layers(layers), GcnWeights().Build(), "BAD_ARCHITECTURE", field, message);
}

TEST(LoadModelTest, LowersLayersToSteps) {
  const auto loaded = LoadModel(kGcn, GcnWeights().Build());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Model& model = **loaded;
  EXPECT_EQ(model.feature_count, 3);
  EXPECT_EQ(model.class_count, 2);
  EXPECT_FALSE(model.graph_level);
  EXPECT_FALSE(model.uses_edge_weight);
  EXPECT_EQ(model.parameter_count, 12 + 4 + 8 + 2);
  EXPECT_GE(model.size_bytes, 26 * 4);
  std::vector<std::string> steps;
  for (const Step& step : model.steps) steps.push_back(StepName(step.op));
  EXPECT_THAT(steps, ElementsAre("linear", "propagate", "bias", "activation", "linear", "propagate", "bias"));
  EXPECT_EQ(model.num_values, 8);
  ASSERT_EQ(model.layers.size(), 3);
  EXPECT_EQ(model.layers[0].name, "conv1");
  EXPECT_EQ(model.layers[0].locality, Locality::kNeighbourhood);
  EXPECT_EQ(model.layers[0].width, 4);
  EXPECT_THAT(model.layers[0].inputs, ElementsAre("x"));
  EXPECT_EQ(model.layers[0].arguments_json,
            R"({"bias":true,"improved":false,"in_channels":3,"normalize":true,"out_channels":4})");
  EXPECT_EQ(model.layers[1].locality, Locality::kNode);
  EXPECT_THAT(model.layers[1].inputs, ElementsAre("conv1"));
  EXPECT_EQ(model.FindOutput("logits")->value, model.layers[2].output);
  EXPECT_EQ(model.FindOutput("last_conv_input")->value, model.layers[1].output);
  EXPECT_EQ(model.FindOutput("act")->width, 4);
  EXPECT_EQ(model.FindOutput("nothing"), nullptr);
}

TEST(LoadModelTest, EveryValueIsTheOutputOfOneEarlierStep) {
  const auto model = LoadModel(kGcn, GcnWeights().Build());
  ASSERT_TRUE(model.ok());
  ValueId next = 1;
  for (const Step& step : (*model)->steps) {
    for (ValueId input : step.inputs) EXPECT_LT(input, step.output);
    EXPECT_EQ(step.output, next++);
  }
  EXPECT_EQ((*model)->num_values, next);
}

TEST(LoadModelTest, AcceptsMetadataPrefixesAndSharedWeights) {
  const std::string architecture = Layers(
      R"({"name": "a", "type": "Linear", "prefix": "conv2.lin.", "inputs": ["x"], "args": {"out_channels": 3, "bias": false}},
         {"name": "b", "type": "Linear", "prefix": "conv2.lin.", "args": {"in_features": 3, "out_features": 3, "bias": false}})",
      R"(, "name": "m", "description": "two layers of one weight", "tensors": {}, "multi_label": true)");
  const auto model = LoadModel(architecture, SafetensorsBuilder().AddRamp("conv2.lin.weight", {3, 3}).Build());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->multi_label);
  EXPECT_EQ((*model)->parameter_count, 9);
  const auto& first = std::get<LinearStep>((*model)->steps[0].op);
  EXPECT_EQ(first.weight, std::get<LinearStep>((*model)->steps[1].op).weight);
}

TEST(LoadModelTest, LayersThatDoNothingAddNoStep) {
  const std::string architecture = Layers(
      R"({"name": "drop", "type": "Dropout", "args": {"p": 0.5}}, {"name": "act", "type": "ReLU"}, {"name": "id", "type": "Identity"})");
  const auto model = LoadModel(architecture, SafetensorsBuilder().Build());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->steps.size(), 1);
  EXPECT_EQ((*model)->FindOutput("id")->value, (*model)->FindOutput("act")->value);
  EXPECT_EQ((*model)->FindOutput("drop"), nullptr);  // the input itself
  EXPECT_EQ((*model)->FindOutput("last_conv_input"), nullptr);
}

TEST(LoadModelTest, RefusesWhatIsNotJson) {
  const std::string weights = GcnWeights().Build();
  ExpectRefused("", weights, "BAD_JSON", "", "not valid JSON");
  ExpectRefused("{", weights, "BAD_JSON", "", "not valid JSON");
  ExpectRefused("{\"format\": \"\xff\"}", weights, "BAD_JSON", "", "UTF-8");
  ExpectRefused("[]", weights, "BAD_JSON", "architecture_json", "must be a JSON object");
  ExpectRefused(std::string(100000, '['), weights, "BAD_JSON", "", "nested deeper");
  ExpectRefused(R"({"layers": [], "layers": []})", weights, "BAD_JSON", "", "occurs twice");
  ExpectRefused(std::string(size_t{5} << 20, ' '), weights, "BAD_JSON", "architecture_json", "5242880 bytes");
}

// Each layer reads all before it: a small document with very many edges, which planning would have to follow.
TEST(LoadModelTest, RefusesTooManyInputsInAll) {
  std::string layers = R"({"name": "l0", "type": "ReLU"})";
  std::string before = "\"l0\"";
  for (int i = 1; i < 200; ++i) {
    const std::string name = "l" + std::to_string(i);
    layers += R"(, {"name": ")" + name + R"(", "type": "JumpingKnowledge", "args": {"mode": "max"}, "inputs": [)" +
              before + "]}";
    before += ", \"" + name + "\"";
  }
  ExpectRefused(Layers(layers), GcnWeights().Build(), "BAD_ARCHITECTURE", "layers[181].inputs",
                "16384 inputs in total");
}

TEST(LoadModelTest, RefusesBadDocuments) {
  const std::string weights = GcnWeights().Build();
  const std::string relu = R"({"name": "a", "type": "ReLU"})";
  ExpectRefused("{}", weights, "BAD_ARCHITECTURE", "layers", "must be a list");
  ExpectRefused(R"({"layers": "GCNConv -> relu"})", weights, "BAD_ARCHITECTURE", "layers", "must be a list");
  ExpectRefused(R"({"layers": []})", weights, "BAD_ARCHITECTURE", "layers", "1 to 4096");
  const std::string reads = "; this server reads \"vicinal.model/1\"";
  ExpectRefused(R"({"layers": [)" + relu + "]}", weights, "BAD_ARCHITECTURE", "format", "format is missing" + reads);
  ExpectRefused(R"({"format": "vicinal.model/2", "layers": [)" + relu + "]}", weights, "BAD_ARCHITECTURE", "format",
                "format is 'vicinal.model/2'" + reads);
  ExpectRefused(R"({"format": 1, "layers": [)" + relu + "]}", weights, "BAD_ARCHITECTURE", "format",
                "format is no text" + reads);
  for (const char* channels : {"0", "-1", "1.5", "\"3\"", "16777217", "99999999999999999999"}) {
    ExpectRefused(
        R"({"format": "vicinal.model/1", "in_channels": )" + std::string(channels) + R"(, "layers": [)" + relu + "]}",
        weights, "BAD_ARCHITECTURE", "in_channels", "number of input features");
  }
  ExpectRefused(Layers(relu, R"(, "colour": 1)"), weights, "BAD_ARCHITECTURE", "colour", "unknown key 'colour'");
  ExpectRefused(Layers(relu, R"(, "tensor_prefix": "a.")"), weights, "BAD_ARCHITECTURE", "tensor_prefix",
                "known here: format, in_channels, task, target, multi_label, layers, decoder; accepted, but ignored: "
                "name, description,");
  ExpectRefused(Layers(relu, R"(, "task": "edge")"), weights, "BAD_ARCHITECTURE", "task", "\"node\" or \"graph\"");
  ExpectRefused(Layers(relu, R"(, "multi_label": 1)"), weights, "BAD_ARCHITECTURE", "multi_label", "true or false");
}

TEST(LoadModelTest, RefusesBadLayers) {
  const std::string a = R"({"name": "a", "type": "ReLU"}, )";
  ExpectBadLayers("3", "layers[0]", "must be an object");
  ExpectBadLayers(R"({"name": "a"})", "layers[0].type", "needs a type");
  ExpectBadLayers(R"({"name": "a", "type": 3})", "layers[0].type", "must be a string");
  ExpectBadLayers(R"({"type": "ReLU"})", "layers[0].name", "1 to 128");
  ExpectBadLayers(R"({"name": "a b", "type": "ReLU"})", "layers[0].name", "1 to 128");
  ExpectBadLayers(R"({"name": "x", "type": "ReLU"})", "layers[0].name", "is reserved");
  ExpectBadLayers(R"({"name": "logits", "type": "ReLU"})", "layers[0].name", "is reserved");
  ExpectBadLayers(a + R"({"name": "a", "type": "ReLU"})", "layers[1].name", "is used by two layers");
  ExpectBadLayers(R"({"name": "a", "type": "ReLU", "heads": 3})", "layers[0].heads", "arguments belong in args");
  ExpectBadLayers(a + R"({"name": "b", "type": "Relu"})", "layers[1].type",
                  "'Relu' is not supported here; did you mean 'ReLU'? Supported: ");
  ExpectBadLayers(R"({"name": "a", "type": "GATv2Cov"})", "layers[0].type", "did you mean 'GATv2Conv'? Supported: ");
  ExpectBadLayers(R"({"name": "a", "type": "HypergraphConv"})", "layers[0].type",
                  "'HypergraphConv' is not supported here; supported: ");
  ExpectBadLayers(R"({"name": "a", "type": "GATv2Conv", "args": {"out_channels": 4, "edge_dims": 3}})",
                  "layers[0].args.edge_dims", "no argument 'edge_dims'; did you mean 'edge_dim'? It takes: ");
  ExpectBadLayers(R"({"name": "a", "type": "ReLU", "inputs": []})", "layers[0].inputs", "must be a list");
  ExpectBadLayers(R"({"name": "a", "type": "ReLU", "inputs": [1]})", "layers[0].inputs", "must be a name");
  ExpectBadLayers(R"({"name": "a", "type": "ReLU", "inputs": ["a"]})", "layers[0].inputs[0]", "not a layer before");
  ExpectBadLayers(R"({"name": "a", "type": "ReLU", "inputs": ["x", "x"]})", "layers[0].inputs",
                  "has 2 inputs; it takes 1");
  ExpectBadLayers(R"({"name": "a", "type": "Add"})", "layers[0].inputs", "has 1 inputs; it takes 2 to ");
  ExpectBadLayers(R"({"name": "a", "type": "ReLU", "args": []})", "layers[0].args", "must be an object");
  ExpectBadLayers(R"({"name": "a", "type": "Identity"})", "layers[0]", "computes nothing");
}

TEST(LoadModelTest, RefusesLayersItDoesNotHaveByName) {
  for (const char* type : {"SplineConv", "DynamicEdgeConv", "MultiheadAttention", "MeanSubtractionNorm"}) {
    ExpectBadLayers(std::string(R"({"name": "conv1", "type": ")") + type + R"("})", "layers[0].type",
                    std::string("'") + type + "' is not supported");
  }
}

TEST(LoadModelTest, RefusesTasksThatDoNotFitTheLayers) {
  const std::string none = SafetensorsBuilder().Build();
  const std::string pool = R"({"name": "p", "type": "global_add_pool"})";
  ExpectRefused(Layers(pool), none, "BAD_ARCHITECTURE", "task", "must be \"graph\"");
  ExpectRefused(Layers(R"({"name": "a", "type": "ReLU"})", R"(, "task": "graph")"), none, "BAD_ARCHITECTURE", "task",
                "needs a readout");
  ExpectBadLayers(pool + R"(, {"name": "c", "type": "GCNConv", "args": {"out_channels": 2}})", "layers[1].inputs",
                  "after a readout");
  ExpectBadLayers(pool + R"(, {"name": "q", "type": "global_max_pool"})", "layers[1].inputs", "after a readout");
  ExpectBadLayers(pool + R"(, {"name": "s", "type": "Add", "inputs": ["x", "p"]})", "layers[1].inputs", "mixes inputs");
  EXPECT_TRUE(LoadModel(Layers(pool, R"(, "task": "graph")"), none).ok());
}

TEST(LoadModelTest, NamesTheTensorThatDoesNotFit) {
  const auto without_bias = SafetensorsBuilder().AddRamp("conv1.lin.weight", {4, 3}).AddRamp("conv1.bais", {4});
  ExpectRefused(kGcn, without_bias.Build(), "TENSOR_MISSING", "conv1.bias",
                "no tensor 'conv1.bias' [4], which layer 'conv1' (GCNConv) needs");
  ExpectRefused(kGcn, without_bias.Build(), "TENSOR_MISSING", "conv1.bias", "not yet used are conv1.bais [4]");
  const auto turned = SafetensorsBuilder().AddRamp("conv1.lin.weight", {3, 4}).AddRamp("conv1.bias", {4});
  ExpectRefused(kGcn, turned.Build(), "TENSOR_SHAPE", "conv1.lin.weight",
                "'conv1.lin.weight' has the shape [3, 4] in the weights file, layer 'conv1' (GCNConv) needs [4, 3]");
  ExpectRefused(
      kGcn, GcnWeights().AddRamp("conv3.bias", {5}).Build(), "TENSOR_UNUSED", "conv3.bias",
      "tensor 'conv3.bias' [5] of the weights file belongs to no layer of the architecture; declare the layer");
  // A bias must not be lost because someone names the weight in its module's place.
  const std::string message = R"json({"format": "vicinal.model/1", "in_channels": 4, "layers": [
      {"name": "e", "type": "MessagePassing", "args": {"message": "linear(x_j, nn.0.weight)"}}]})json";
  ExpectRefused(message, SafetensorsBuilder().AddRamp("e.nn.0.weight", {3, 4}).AddRamp("e.nn.0.bias", {3}).Build(),
                "TENSOR_UNUSED", "e.nn.0.bias",
                "reads 'e.nn.0.weight' alone: an expression reads both where linear names the module");
  // What the layer reads in its place.
  ExpectRefused(
      kGcn, GcnWeights().AddRamp("conv2.lin.wieght", {5}).Build(), "TENSOR_UNUSED", "conv2.lin.wieght",
      "of the architecture; layer 'conv2' (GCNConv) reads 'conv2.lin.weight', 'conv2.bias'; declare the layer");
  ExpectRefused(kGcn, GcnWeights().AddRamp("conv1.weight", {5}).Build(), "TENSOR_UNUSED", "conv1.weight",
                "layer 'conv1' (GCNConv) reads 'conv1.bias', 'conv1.lin.weight'; declare the layer that uses it");
  ExpectRefused(kGcn, "", "BAD_SAFETENSORS", "weights", "0 bytes");
}

TEST(LoadModelTest, IgnoresBookkeepingOfTraining) {
  EXPECT_TRUE(LoadModel(kGcn, GcnWeights().AddBytes("norm.num_batches_tracked", "I64", {}, "12345678").Build()).ok());
}

TEST(LoadModelTest, RefusesWeightsThatCannotAnswer) {
  const auto nan = SafetensorsBuilder().Add("a.weight", {1, 3}, {0.0f, NAN, 0.0f});
  const std::string linear = Layers(R"({"name": "a", "type": "Linear", "args": {"out_channels": 1, "bias": false}})");
  ExpectRefused(linear, nan.Build(), "NOT_FINITE", "a.weight", "element 1");
  const auto integers = SafetensorsBuilder().AddBytes("a.weight", "I32", {1, 3}, std::string(12, '\0'));
  ExpectRefused(linear, integers.Build(), "BAD_SAFETENSORS", "a.weight", "'a.weight' is I32");
}

TEST(LoadModelTest, DamagedDocumentsNeverEndTheProcess) {
  const std::string good = kGcn;
  const std::string weights = GcnWeights().Build();
  std::mt19937_64 random(20240608);
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(LoadModel(good.substr(0, size), weights).ok()) << size;
  const std::string letters = "{}[]\",:0-9e.ntx";
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (int i = 0; i < 1 + static_cast<int>(random() % 3); ++i) {
      const size_t at = random() % text.size();
      if (random() % 4 == 0) {
        text.erase(at, 1 + random() % 8);
      } else {
        text[at] = random() % 2 == 0 ? letters[random() % letters.size()] : static_cast<char>(random());
      }
      if (text.empty()) break;
    }
    const auto model = LoadModel(text, weights);
    if (!model.ok()) {
      EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument);
    }
  }
}

TEST(SupportedLayerTypesTest, ListsThemInOrder) {
  const std::vector<LayerTypeInfo> types = SupportedLayerTypes();
  std::vector<std::string> names;
  for (const LayerTypeInfo& type : types) names.push_back(type.type);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THAT(names, ::testing::IsSupersetOf({"GCNConv", "SAGEConv", "GINConv", "GATConv", "GATv2Conv", "Linear",
                                              "BatchNorm", "LayerNorm", "ReLU", "ELU", "LeakyReLU", "JumpingKnowledge",
                                              "Add", "global_add_pool"}));
  for (const LayerTypeInfo& type : types) {
    if (type.type != "GATConv") continue;
    EXPECT_THAT(type.supported, ::testing::Contains("heads"));
    EXPECT_THAT(type.refused, ::testing::Contains("flow"));
  }
}

// --- decoders of links ---

std::string WithDecoder(const std::string& decoder) {
  std::string document = kGcn;
  document.pop_back();
  return document + ", \"decoder\": " + decoder + "}";
}

TEST(LoadDecoderTest, BindsItsTensors) {
  const auto bilinear =
      LoadModel(WithDecoder(R"({"type": "bilinear", "output": "conv1", "args": {"num_relations": 3}})"),
                GcnWeights().AddRamp("decoder.weight", {3, 4, 4}).AddRamp("decoder.bias", {3}).Build());
  ASSERT_TRUE(bilinear.ok()) << bilinear.status();
  const Decoder& decoder = *(*bilinear)->decoder;
  EXPECT_EQ(decoder.kind, DecoderKind::kBilinear);
  EXPECT_EQ(decoder.output, "conv1");
  EXPECT_EQ(decoder.width, 4);
  EXPECT_EQ(decoder.relations, 3);
  EXPECT_EQ((*bilinear)->parameter_count, 26 + 48 + 3);
  const auto mlp = LoadModel(
      WithDecoder(R"({"type": "mlp", "args": {"nn": [{"type": "Linear", "args": {"out_channels": 5}}, {"type": "ReLU"},
                      {"type": "Dropout"}, {"type": "Linear", "args": {"out_channels": 1, "bias": false}}]}})"),
      GcnWeights()
          .AddRamp("decoder.nn.0.weight", {5, 4})
          .AddRamp("decoder.nn.0.bias", {5})
          .AddRamp("decoder.nn.3.weight", {1, 5})
          .Build());
  ASSERT_TRUE(mlp.ok()) << mlp.status();
  ASSERT_EQ((*mlp)->decoder->layers.size(), 2u);
  EXPECT_EQ((*mlp)->decoder->layers[0].activation.kind, ActivationKind::kRelu);
  EXPECT_EQ((*mlp)->decoder->layers[1].bias, nullptr);
  EXPECT_FALSE(LoadModel(kGcn, GcnWeights().Build()).value()->decoder.has_value());
}

TEST(LoadDecoderTest, SaysWhatIsWrong) {
  const auto refused = [](const std::string& decoder, const std::string& reason, const std::string& field,
                          const std::string& message) {
    ExpectRefused(WithDecoder(decoder), GcnWeights().Build(), reason, field, message);
  };
  refused("3", "BAD_ARCHITECTURE", "decoder", "must be an object");
  refused("{}", "BAD_ARCHITECTURE", "decoder.type", "distmult");
  refused(R"({"type": "best"})", "BAD_ARCHITECTURE", "decoder.type", "'best'");
  refused(R"({"type": "dot", "kind": 1})", "BAD_ARCHITECTURE", "decoder.kind", "not known");
  refused(R"({"type": "dot", "output": "conv9"})", "BAD_ARCHITECTURE", "decoder.output", "'conv9'");
  refused(R"({"type": "dot", "args": {"scale": 2}})", "BAD_ARCHITECTURE", "decoder.args.scale", "scale");
  refused(R"({"type": "DistMult"})", "BAD_ARCHITECTURE", "decoder.type", "did you mean 'distmult'?");
  refused(R"({"type": "distmult", "args": {"num_relations": 0}})", "BAD_ARCHITECTURE", "decoder.args.num_relations",
          "0");
  ExpectRefused(WithDecoder(R"({"type": "distmult"})"), GcnWeights().AddRamp("decoder.rel_emb", {3, 4}).Build(),
                "BAD_ARCHITECTURE", "decoder.args.num_relations",
                "is 1, but tensor 'decoder.rel_emb' [3, 4] has 3 relations; set num_relations to that");
  refused(R"({"type": "distmult"})", "TENSOR_MISSING", "decoder.weight", "decoder.weight");
  refused(R"({"type": "mlp", "args": {"nn": [{"type": "ReLU"}]}})", "UNSUPPORTED_ARGUMENT", "decoder.args.nn[0]",
          "ReLU");
  ExpectRefused(WithDecoder(R"({"type": "mlp", "args": {"nn": [{"type": "Linear", "args": {"out_channels": 2}}]}})"),
                GcnWeights().AddRamp("decoder.nn.0.weight", {2, 4}).AddRamp("decoder.nn.0.bias", {2}).Build(),
                "BAD_ARCHITECTURE", "decoder.args.nn", "out_channels 1");
}

}  // namespace
}  // namespace vicinal

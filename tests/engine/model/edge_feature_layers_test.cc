// SPDX-License-Identifier: Apache-2.0
// Layers that read features of edges: the steps and tensors that `edge_dim` and `fill_value` give, the width that a
// model asks of a graph, and what is refused.
#include <string>
#include <variant>

#include "tests/engine/model/model_testing.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using testing::ExpectRefused;
using testing::LoadOrFail;
using testing::NamesOfSteps;
using testing::SafetensorsBuilder;

std::string OfThreeFeatures(const std::string& type, const std::string& args) {
  return testing::OfOneLayer(type, args, 3);
}

constexpr char kOneLinear[] = R"("nn": [{"type": "Linear", "args": {"out_channels": 2}}])";

SafetensorsBuilder GineNnWeights() {
  return SafetensorsBuilder().AddRamp("c.nn.0.weight", {2, 3}).AddRamp("c.nn.0.bias", {2});
}

TEST(GineConvTest, FeaturesAreMultipliedWithEdgeDimAlone) {
  const auto same =
      LoadOrFail(OfThreeFeatures("GINEConv", std::string(kOneLinear) + R"(, "eps": 0.5)"), GineNnWeights());
  EXPECT_THAT(NamesOfSteps(*same), ElementsAre("edge_message", "add", "linear"));
  EXPECT_EQ(same->edge_feature_width, 3);
  const auto& plain = std::get<EdgeMessageStep>(same->steps[0].op);
  EXPECT_EQ(plain.edge_width, 3);
  EXPECT_EQ(plain.edge_weight, nullptr);
  EXPECT_EQ(plain.reduce, Reduce::kSum);
  EXPECT_EQ(plain.adjacency, AdjacencySpec());
  EXPECT_THAT(same->steps[1].inputs, ElementsAre(1, 0));
  EXPECT_EQ(std::get<AddStep>(same->steps[1].op).b_scale, 1.5);
  const auto wide = LoadOrFail(
      OfThreeFeatures("GINEConv", std::string(kOneLinear) + R"(, "edge_dim": 7, "train_eps": true, "aggr": "mean")"),
      GineNnWeights().AddRamp("c.lin.weight", {3, 7}).AddRamp("c.lin.bias", {3}).AddRamp("c.eps", {1}));
  EXPECT_EQ(wide->edge_feature_width, 7);
  const auto& product = std::get<EdgeMessageStep>(wide->steps[0].op);
  EXPECT_THAT(product.edge_weight->shape, ElementsAre(3, 7));
  EXPECT_THAT(product.edge_bias->shape, ElementsAre(3));
  EXPECT_EQ(product.reduce, Reduce::kMean);
}

TEST(GineConvTest, RefusesArguments) {
  ExpectRefused(OfThreeFeatures("GINEConv", ""), "BAD_ARCHITECTURE", "layers[0].args.nn", "needs the argument 'nn'");
  ExpectRefused(OfThreeFeatures("GINEConv", std::string(kOneLinear) + R"(, "edge_dim": 0)"), "BAD_ARCHITECTURE",
                "layers[0].args.edge_dim", "within 1 and");
  ExpectRefused(OfThreeFeatures("GINEConv", std::string(kOneLinear) + R"(, "edge_dim": 4)"), "TENSOR_MISSING",
                "c.lin.weight", "'c.lin.weight' [3, 4]");
  ExpectRefused(OfThreeFeatures("GINEConv", std::string(kOneLinear) + R"(, "aggr": "median")"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.aggr", "median");
}

SafetensorsBuilder GatEdgeWeights() {
  return SafetensorsBuilder()
      .AddRamp("c.lin.weight", {4, 3})
      .AddRamp("c.att_src", {1, 2, 2})
      .AddRamp("c.att_dst", {1, 2, 2})
      .AddRamp("c.att_edge", {1, 2, 2})
      .AddRamp("c.lin_edge.weight", {4, 5})
      .AddRamp("c.bias", {4});
}

const AttentionStep& AttentionOf(const Model& model) {
  for (const Step& step : model.steps) {
    if (const auto* attention = std::get_if<AttentionStep>(&step.op)) return *attention;
  }
  ADD_FAILURE() << "no attention";
  static const AttentionStep none;
  return none;
}

TEST(GatConvEdgeTest, EdgeDimAndFillValue) {
  const auto mean =
      LoadOrFail(OfThreeFeatures("GATConv", R"("out_channels": 2, "heads": 2, "edge_dim": 5)"), GatEdgeWeights());
  EXPECT_EQ(mean->edge_feature_width, 5);
  const AttentionStep& step = AttentionOf(*mean);
  EXPECT_EQ(step.edge_width, 5);
  EXPECT_THAT(step.edge_weight->shape, ElementsAre(4, 5));
  EXPECT_THAT(step.att_edge->shape, ElementsAre(4));
  EXPECT_EQ(step.loop_features, LoopFeatures());
  const auto number =
      LoadOrFail(OfThreeFeatures("GATConv", R"("out_channels": 2, "heads": 2, "edge_dim": 5, "fill_value": -0.5)"),
                 GatEdgeWeights());
  EXPECT_EQ(AttentionOf(*number).loop_features, (LoopFeatures{false, -0.5f}));
}

TEST(GatConvEdgeTest, RefusesFillValues) {
  for (const char* fill : {"\"max\"", "[1, 2]", "null", "1e300"}) {
    ExpectRefused(OfThreeFeatures(
                      "GATConv", R"("out_channels": 2, "heads": 2, "edge_dim": 5, "fill_value": )" + std::string(fill)),
                  GatEdgeWeights().Build(), "UNSUPPORTED_ARGUMENT", "layers[0].args.fill_value", "supported: \"mean\"");
  }
}

TEST(GatV2ConvEdgeTest, EdgeDim) {
  const auto model = LoadOrFail(
      OfThreeFeatures("GATv2Conv", R"("out_channels": 2, "edge_dim": 5, "bias": false, "share_weights": true)"),
      SafetensorsBuilder()
          .AddRamp("c.att", {1, 1, 2})
          .AddRamp("c.lin_l.weight", {2, 3})
          .AddRamp("c.lin_edge.weight", {2, 5}));
  EXPECT_EQ(AttentionOf(*model).edge_width, 5);
  EXPECT_EQ(AttentionOf(*model).att_edge, nullptr);
}

TEST(TransformerConvEdgeTest, EdgeDim) {
  SafetensorsBuilder weights;
  for (const char* name : {"lin_key", "lin_query", "lin_value", "lin_skip"})
    weights.AddRamp(std::string("c.") + name + ".weight", {2, 3});
  const auto model =
      LoadOrFail(OfThreeFeatures("TransformerConv", R"("out_channels": 2, "edge_dim": 5, "bias": false)"),
                 weights.AddRamp("c.lin_edge.weight", {2, 5}));
  EXPECT_EQ(AttentionOf(*model).edge_width, 5);
  EXPECT_EQ(model->edge_feature_width, 5);
}

// One graph has one edge_attr.
TEST(EdgeWidthTest, LayersMustAgree) {
  const std::string two =
      R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [{"name": "c", "type": "GINEConv", "args": {)" +
      std::string(kOneLinear) + R"(}}, {"name": "d", "type": "GINEConv", "args": {)" + kOneLinear + "}}]}";
  ExpectRefused(two, GineNnWeights().AddRamp("d.nn.0.weight", {2, 2}).AddRamp("d.nn.0.bias", {2}).Build(),
                "BAD_ARCHITECTURE", "layers[1]", "reads 2 features of each edge, but a layer before it reads 3");
}

}  // namespace
}  // namespace vicinal

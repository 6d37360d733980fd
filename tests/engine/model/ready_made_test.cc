// SPDX-License-Identifier: Apache-2.0
// The ready-made classes of torch_geometric.nn.models: the files of tests/data/models load as they are, options move
// layers where BasicGNN has them, and what is not supported is refused by name. Values are held against references in
// tests/engine/plan_interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "tests/engine/model/model_testing.h"
#include "tests/engine/model/safetensors_builder.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using testing::ExpectRefused;
using ::testing::HasSubstr;
using testing::SafetensorsBuilder;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> Types(const Model& model) {
  std::vector<std::string> types;
  for (const LayerInfo& layer : model.layers) types.push_back(layer.type);
  return types;
}

// A ready-made class over 3 features, hidden width 4, 2 layers; `more` kwargs.
std::string Class(const std::string& name, const std::string& more, const std::string& document = "") {
  return R"({"class": "torch_geometric.nn.models.)" + name +
         R"(", "kwargs": {"in_channels": 3, "hidden_channels": 4, "num_layers": 2)" + more + "}" + document + "}";
}

SafetensorsBuilder Gcn(int64_t last_width) {
  return SafetensorsBuilder()
      .AddRamp("convs.0.lin.weight", {4, 3})
      .AddRamp("convs.0.bias", {4})
      .AddRamp("convs.1.lin.weight", {last_width, 4})
      .AddRamp("convs.1.bias", {last_width});
}

TEST(ReadyMadeTest, EveryModelOfTheTestDataLoads) {
  const std::filesystem::path folder = std::filesystem::path(VICINAL_TEST_DATA) / "models";
  int loaded = 0, refused = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::string name = file.path().filename().string();
    if (file.path().extension() != ".json") continue;
    SCOPED_TRACE(name);
    const std::string document = ReadFile(file.path());
    const bool explicit_list = name.find(".vicinal.json") != std::string::npos;
    name = name.substr(0, name.find('.'));
    const auto model = LoadModel(document, ReadFile(folder / (name + ".safetensors")));
    if (!explicit_list && document.find("\"class\"") == std::string::npos) {
      // The description of a hand-written model in words.
      EXPECT_THAT(std::string(model.status().message()), HasSubstr("layers must be a list"));
      ++refused;
      continue;
    }
    EXPECT_TRUE(model.ok()) << model.status();
    ++loaded;
  }
  EXPECT_EQ(loaded, 24 + 12);
  EXPECT_EQ(refused, 12);
}

TEST(ReadyMadeTest, IsTheSameAsTheListOfLayers) {
  const auto ready = LoadModel(Class("GCN", R"(, "out_channels": 2)"), Gcn(2).Build());
  const auto listed = LoadModel(R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [
      {"name": "convs.0", "type": "GCNConv", "args": {"in_channels": 3, "out_channels": 4}},
      {"name": "acts.0", "type": "ReLU"},
      {"name": "convs.1", "type": "GCNConv", "args": {"in_channels": 4, "out_channels": 2}}]})",
                                Gcn(2).Build());
  ASSERT_TRUE(ready.ok()) << ready.status();
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ((*ready)->layers.size(), (*listed)->layers.size());
  for (size_t i = 0; i < (*ready)->layers.size(); ++i) {
    const LayerInfo &a = (*ready)->layers[i], &b = (*listed)->layers[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.type, b.type);
    EXPECT_EQ(a.arguments_json, b.arguments_json);
    EXPECT_EQ(a.tensor_prefix, b.tensor_prefix);
    EXPECT_EQ(a.inputs, b.inputs);
  }
  ASSERT_EQ((*ready)->steps.size(), (*listed)->steps.size());
  for (size_t i = 0; i < (*ready)->steps.size(); ++i) {
    EXPECT_EQ(StepName((*ready)->steps[i].op), StepName((*listed)->steps[i].op));
    EXPECT_EQ((*ready)->steps[i].inputs, (*listed)->steps[i].inputs);
  }
}

TEST(ReadyMadeTest, WithoutOutChannelsTheLastConvolutionIsHidden) {
  const auto model = LoadModel(Class("GCN", ""), Gcn(4).Build());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->class_count, 4);
  EXPECT_THAT(Types(**model), ElementsAre("GCNConv", "ReLU", "GCNConv"));
}

TEST(ReadyMadeTest, JumpingKnowledgeAddsNormActivationAndLinear) {
  auto weights = Gcn(4).AddRamp("lin.weight", {2, 4}).AddRamp("lin.bias", {2});
  const auto last = LoadModel(Class("GCN", R"(, "out_channels": 2, "jk": "last")"), weights.Build());
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_THAT(Types(**last), ElementsAre("GCNConv", "ReLU", "GCNConv", "ReLU", "Linear"));
  const auto max = LoadModel(
      Class("GCN", R"(, "out_channels": 2, "jk": "max", "act": "ELU", "act_kwargs": {"alpha": 0.5})"), weights.Build());
  ASSERT_TRUE(max.ok()) << max.status();
  EXPECT_THAT(Types(**max), ElementsAre("GCNConv", "ELU", "GCNConv", "ELU", "JumpingKnowledge", "Linear"));
  EXPECT_THAT((*max)->layers[4].inputs, ElementsAre("acts.0", "acts.1"));
  EXPECT_THAT((*max)->layers[1].arguments_json, HasSubstr("\"alpha\":0.5"));
}

TEST(ReadyMadeTest, ActFirstPutsTheActivationBeforeTheNorm) {
  auto weights = Gcn(2).AddRamp("norms.0.weight", {4}).AddRamp("norms.0.bias", {4});
  const std::string norm = R"(, "out_channels": 2, "norm": "LayerNorm", "norm_kwargs": {"mode": "node"})";
  const auto after = LoadModel(Class("GCN", norm), weights.Build());
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_THAT(Types(**after), ElementsAre("GCNConv", "LayerNorm", "ReLU", "GCNConv"));
  EXPECT_EQ((*after)->layers[1].locality, Locality::kNode);
  const auto first = LoadModel(Class("GCN", norm + R"(, "act_first": true, "act": "leaky_relu")"), weights.Build());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(Types(**first), ElementsAre("GCNConv", "LeakyReLU", "LayerNorm", "GCNConv"));
  const auto none = LoadModel(Class("GCN", norm + R"(, "act": null)"), weights.Build());
  EXPECT_THAT(Types(**none), ElementsAre("GCNConv", "LayerNorm", "GCNConv"));
}

TEST(ReadyMadeTest, OnlyGcnMayTakeEdgeWeights) {
  const auto model = LoadModel(Class("GCN", R"(, "out_channels": 2)", R"(, "edge_weight": true)"), Gcn(2).Build());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE((*model)->uses_edge_weight);
  ExpectRefused(Class("GraphSAGE", "", R"(, "edge_weight": true)"), "UNSUPPORTED_ARGUMENT", "edge_weight",
                "GraphSAGE does not support edge weights");
}

TEST(ReadyMadeTest, TensorsMayHaveAPrefix) {
  const auto weights = SafetensorsBuilder()
                           .AddRamp("gnn.convs.0.lin.weight", {4, 3})
                           .AddRamp("gnn.convs.0.bias", {4})
                           .AddRamp("gnn.convs.1.lin.weight", {2, 4})
                           .AddRamp("gnn.convs.1.bias", {2});
  EXPECT_TRUE(LoadModel(Class("GCN", R"(, "out_channels": 2)", R"(, "tensor_prefix": "gnn.")"), weights.Build()).ok());
}

TEST(ReadyMadeTest, GatDividesHiddenChannelsAmongHeads) {
  const auto weights = SafetensorsBuilder()
                           .AddRamp("convs.0.lin.weight", {4, 3})
                           .AddRamp("convs.0.att_src", {1, 2, 2})
                           .AddRamp("convs.0.att_dst", {1, 2, 2})
                           .AddRamp("convs.0.bias", {4})
                           .AddRamp("convs.1.lin.weight", {10, 4})
                           .AddRamp("convs.1.att_src", {1, 2, 5})
                           .AddRamp("convs.1.att_dst", {1, 2, 5})
                           .AddRamp("convs.1.bias", {5});
  const auto model = LoadModel(Class("GAT", R"(, "heads": 2, "out_channels": 5)"), weights.Build());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->layers[0].width, 4);
  EXPECT_EQ((*model)->class_count, 5);
  ExpectRefused(Class("GAT", R"(, "heads": 3)"), "BAD_ARCHITECTURE", "kwargs.heads", "must be divisible by heads (3)");
  ExpectRefused(Class("GAT", R"(, "heads": "3")"), "BAD_ARCHITECTURE", "kwargs.heads", "must be an integer");
  ExpectRefused(Class("GAT", R"(, "v2": 1)"), "BAD_ARCHITECTURE", "kwargs.v2", "true or false");
}

TEST(ReadyMadeTest, EdgeCnnHoldsItsNetworkPerEdge) {
  auto weights = SafetensorsBuilder();
  for (const auto& [conv, in] : {std::pair("convs.0.nn.", 6), std::pair("convs.1.nn.", 8)}) {
    weights.AddRamp(conv + std::string("lins.0.weight"), {4, in}).AddRamp(conv + std::string("lins.0.bias"), {4});
    weights.AddRamp(conv + std::string("lins.1.weight"), {4, 4}).AddRamp(conv + std::string("lins.1.bias"), {4});
  }
  const auto model = LoadModel(Class("EdgeCNN", R"(, "aggr": "mean")"), weights.Build());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(Types(**model), ElementsAre("EdgeConv", "ReLU", "EdgeConv"));
  ExpectRefused(Class("EdgeCNN", R"(, "nn": [])"), "BAD_ARCHITECTURE", "kwargs.nn", "creates its own nn");
}

TEST(ReadyMadeTest, RefusesByName) {
  ExpectRefused(R"({"class": "torch_geometric.nn.models.PNA"})", "BAD_ARCHITECTURE", "class",
                "'torch_geometric.nn.models.PNA'; supported: GCN");
  ExpectRefused(R"({"class": 3})", "BAD_ARCHITECTURE", "class", "supported");
  ExpectRefused(R"({"class": "GCN"})", "BAD_ARCHITECTURE", "kwargs", "must be an object");
  ExpectRefused(R"({"class": "GCN", "kwargs": {"in_channels": 3}})", "BAD_ARCHITECTURE", "kwargs.hidden_channels",
                "needs the argument");
  ExpectRefused(R"({"class": "GCN", "kwargs": {"in_channels": 3, "hidden_channels": 4, "num_layers": 1000000000}})",
                "BAD_ARCHITECTURE", "kwargs.num_layers", "within 1 and 1024");
  ExpectRefused(Class("GCN", R"(, "jk": "mean")"), "UNSUPPORTED_ARGUMENT", "kwargs.jk",
                "supported: last, cat, max, lstm");
  ExpectRefused(Class("GCN", R"(, "act": "prelu")"), "UNSUPPORTED_ARGUMENT", "kwargs.act", "'prelu'");
  ExpectRefused(Class("GCN", R"(, "norm": "pair_norm")"), "UNSUPPORTED_ARGUMENT", "kwargs.norm",
                "'pair_norm', which is not supported; supported: batch_norm, layer_norm, graph_norm, instance_norm");
  ExpectRefused(Class("EdgeCNN", R"(, "norm": "layer_norm")"), "UNSUPPORTED_ARGUMENT", "kwargs.norm",
                "'layer_norm', which EdgeCNN would also apply to the messages");
  ExpectRefused(Class("GIN", R"(, "norm": "batch_norm", "norm_kwargs": 3)"), "BAD_ARCHITECTURE", "kwargs.norm_kwargs",
                "object of arguments");
  ExpectRefused(Class("GCN", R"(, "heads": 2)"), "BAD_ARCHITECTURE", "kwargs.heads", "GCNConv has no argument 'heads'");
  ExpectRefused(Class("GraphSAGE", R"(, "aggr": "median")"), "UNSUPPORTED_ARGUMENT", "kwargs.aggr",
                "supported: mean, max, min, sum, add");
  ExpectRefused(Class("GIN", R"(, "nn": [])"), "BAD_ARCHITECTURE", "kwargs.nn", "creates its own nn");
  ExpectRefused(Class("GCN", "", R"(, "layers": [])"), "BAD_ARCHITECTURE", "layers", "unknown key 'layers'");
  ExpectRefused(Class("GCN", ""), "TENSOR_MISSING", "convs.0.lin.weight", "'convs.0.lin.weight' [4, 3]");
  ExpectRefused(Class("GCN", "", R"(, "task": "graph")"), "TENSOR_MISSING", "convs.0.lin.weight",
                "'convs.0.lin.weight' [4, 3]");
}

// GIN of one layer, pooled, then Linear.
std::string Pooled(const std::string& pool, const std::string& more = "") {
  return R"({"class": "GIN -> )" + pool + R"( -> Linear", "kwargs": {"out_channels": 2},
             "gnn": {"class": "torch_geometric.nn.models.GIN", "kwargs": {"in_channels": 3, "hidden_channels": 4, "num_layers": 1}, "tensor_prefix": "gnn."})" +
         more + "}";
}
SafetensorsBuilder PooledWeights() {
  return SafetensorsBuilder()
      .AddRamp("gnn.convs.0.eps", {1})
      .AddRamp("gnn.convs.0.nn.lins.0.weight", {4, 3})
      .AddRamp("gnn.convs.0.nn.lins.0.bias", {4})
      .AddRamp("gnn.convs.0.nn.lins.1.weight", {4, 4})
      .AddRamp("gnn.convs.0.nn.lins.1.bias", {4})
      .AddRamp("lin.weight", {2, 4})
      .AddRamp("lin.bias", {2});
}

TEST(PooledTest, EndsInOneRowPerGraph) {
  for (const auto& [pool, reduce] :
       {std::pair("global_add_pool", Reduce::kSum), std::pair("global_mean_pool", Reduce::kMean),
        std::pair("global_max_pool", Reduce::kMax)}) {
    const auto model = LoadModel(Pooled(pool), PooledWeights().Build());
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_TRUE((*model)->graph_level);
    EXPECT_EQ((*model)->class_count, 2);
    EXPECT_THAT(Types(**model), ElementsAre("GINConv", pool, "Linear"));
    EXPECT_EQ(std::get<ReadoutStep>((*model)->steps[(*model)->steps.size() - 2].op).reduce, reduce);
    EXPECT_EQ((*model)->layers[1].locality, Locality::kGraph);
  }
}

TEST(PooledTest, RefusesWhatDisagrees) {
  ExpectRefused(Pooled("global_add_pool", R"(, "readout": "mean over graph_id")"), "BAD_ARCHITECTURE", "readout",
                "must be \"sum\"");
  ExpectRefused(Pooled("global_add_pool", R"(, "task": "node")"), "BAD_ARCHITECTURE", "task", "\"graph\"");
  ExpectRefused(Pooled("global_sort_pool"), "BAD_ARCHITECTURE", "class", "global_add_pool");
  ExpectRefused(R"({"class": "GIN -> global_add_pool -> Linear"})", "BAD_ARCHITECTURE", "gnn", "must be an object");
  ExpectRefused(R"({"class": "GAT -> global_add_pool -> Linear", "gnn": {"class": "GIN"}})", "BAD_ARCHITECTURE",
                "class", "\"GIN -> global_add_pool");
}

}  // namespace
}  // namespace vicinal

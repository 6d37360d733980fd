// SPDX-License-Identifier: Apache-2.0
// Each layer type's arguments: what they change in the steps, and how those that are not supported are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/model/model.h"
#include "tests/engine/model/model_testing.h"
#include "tests/engine/model/safetensors_builder.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using testing::ExpectRefused;
using ::testing::HasSubstr;
using testing::LoadOrFail;
using testing::NamesOfSteps;
using testing::SafetensorsBuilder;

// A model of one layer "c" over 3 features.
std::string One(const std::string& type, const std::string& args, const std::string& more = "") {
  return R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [{"name": "c", "type": ")" + type +
         R"(", "args": {)" + args + "}" + more + "}]}";
}

SafetensorsBuilder OneGcnWeights() {
  return SafetensorsBuilder().AddRamp("c.lin.weight", {2, 3}).AddRamp("c.bias", {2});
}

AdjacencySpec GcnAdjacency(const std::string& args, bool edge_weight) {
  const auto model = LoadOrFail(
      One("GCNConv", R"("out_channels": 2)" + args, edge_weight ? R"(, "edge_weight": true)" : ""), OneGcnWeights());
  EXPECT_EQ(model->uses_edge_weight, edge_weight);
  return std::get<PropagateStep>(model->steps[1].op).adjacency;
}

TEST(GcnConvTest, ArgumentsChooseTheAdjacency) {
  EXPECT_EQ(GcnAdjacency("", false), (AdjacencySpec{SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnOnes}));
  EXPECT_EQ(GcnAdjacency("", true), (AdjacencySpec{SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnSent}));
  EXPECT_EQ(GcnAdjacency(R"(, "improved": true)", true),
            (AdjacencySpec{SelfLoops::kAddRemaining, 2.0f, EdgeWeighting::kGcnSent}));
  EXPECT_EQ(GcnAdjacency(R"(, "improved": true)", false),
            (AdjacencySpec{SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnOnes}));
  EXPECT_EQ(GcnAdjacency(R"(, "add_self_loops": false)", false),
            (AdjacencySpec{SelfLoops::kAsSent, 1.0f, EdgeWeighting::kGcnOnes}));
  EXPECT_EQ(GcnAdjacency(R"(, "add_self_loops": null)", false),
            (AdjacencySpec{SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnOnes}));
  EXPECT_EQ(GcnAdjacency(R"(, "normalize": false)", false), AdjacencySpec());
  EXPECT_EQ(GcnAdjacency(R"(, "normalize": false)", true),
            (AdjacencySpec{SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSent}));
}

TEST(GcnConvTest, WithoutBias) {
  const auto model = LoadOrFail(
      One("GCNConv", R"("out_channels": 2, "bias": false, "cached": true, "aggr": "add", "flow": "source_to_target")"),
      SafetensorsBuilder().AddRamp("c.lin.weight", {2, 3}));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "propagate"));
}

TEST(GcnConvTest, RefusesArguments) {
  ExpectRefused(One("GCNConv", R"("in_channels": 3)"), "BAD_ARCHITECTURE", "layers[0].args.out_channels",
                "needs the argument 'out_channels'");
  ExpectRefused(One("GCNConv", R"("out_channels": 0)"), "BAD_ARCHITECTURE", "layers[0].args.out_channels",
                "within 1 and 16777216");
  ExpectRefused(One("GCNConv", R"("out_channels": 2.0)"), "BAD_ARCHITECTURE", "layers[0].args.out_channels",
                "must be an integer");
  ExpectRefused(One("GCNConv", R"("out_channels": 2, "in_channels": 4)"), "BAD_ARCHITECTURE",
                "layers[0].args.in_channels", "its input has 3 columns");
  ExpectRefused(One("GCNConv", R"("out_channels": 2, "in_channels": [3, 3])"), "BAD_ARCHITECTURE",
                "layers[0].args.in_channels", "must be an integer");
  ExpectRefused(One("GCNConv", R"("out_channels": 2, "improve": true)"), "BAD_ARCHITECTURE", "layers[0].args.improve",
                "no argument 'improve'; did you mean 'improved'? It takes: in_channels, out_channels, improved");
  ExpectRefused(One("GCNConv", R"("out_channels": 2, "improved": 1)"), "BAD_ARCHITECTURE", "layers[0].args.improved",
                "true or false");
  ExpectRefused(One("GCNConv", R"("out_channels": 2, "add_self_loops": true, "normalize": false)"), "BAD_ARCHITECTURE",
                "layers[0].args.add_self_loops", "without normalize");
  ExpectRefused(One("GCNConv", R"("out_channels": 2, "flow": "target_to_source")"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.flow", "source to target");
  ExpectRefused(One("GCNConv", R"("out_channels": 2, "aggr": "max")"), "UNSUPPORTED_ARGUMENT", "layers[0].args.aggr",
                "only 'add'");
}

TEST(SageConvTest, Arguments) {
  const auto full = SafetensorsBuilder()
                        .AddRamp("c.lin.weight", {3, 3})
                        .AddRamp("c.lin.bias", {3})
                        .AddRamp("c.lin_l.weight", {2, 3})
                        .AddRamp("c.lin_l.bias", {2})
                        .AddRamp("c.lin_r.weight", {2, 3});
  const auto model =
      LoadOrFail(One("SAGEConv", R"("out_channels": 2, "aggr": "max", "project": true, "normalize": true)"), full);
  EXPECT_THAT(NamesOfSteps(*model),
              ElementsAre("linear", "activation", "propagate", "linear", "linear", "add", "normalize"));
  EXPECT_EQ(std::get<PropagateStep>(model->steps[2].op).reduce, Reduce::kMax);
  EXPECT_EQ(std::get<PropagateStep>(model->steps[2].op).adjacency, AdjacencySpec());
  EXPECT_THAT(model->steps[4].inputs, ElementsAre(kInputValue));  // the root is not projected

  const auto small = SafetensorsBuilder().AddRamp("c.lin_l.weight", {2, 3});
  for (const auto& [aggr, reduce] : {std::pair("mean", Reduce::kMean), std::pair("sum", Reduce::kSum),
                                     std::pair("add", Reduce::kSum), std::pair("min", Reduce::kMin)}) {
    const auto plain =
        LoadOrFail(One("SAGEConv", std::string(R"("out_channels": 2, "root_weight": false, "bias": false, "aggr": ")") +
                                       aggr + "\""),
                   small);
    EXPECT_THAT(NamesOfSteps(*plain), ElementsAre("propagate", "linear"));
    EXPECT_EQ(std::get<PropagateStep>(plain->steps[0].op).reduce, reduce);
  }
}

TEST(SageConvTest, AggregationsStandSideBySide) {
  const std::string args = R"("out_channels": 2, "root_weight": false, "bias": false, "aggr": )";
  const auto several = LoadOrFail(One("SAGEConv", args + R"(["max", "var", "std"])"),
                                  SafetensorsBuilder().AddRamp("c.lin_l.weight", {2, 9}));
  const std::vector<std::string> variance = {"propagate", "multiply", "propagate", "multiply", "add"};
  std::vector<std::string> expected = {"propagate"};
  for (int i = 0; i < 2; ++i) expected.insert(expected.end(), variance.begin(), variance.end());
  expected.insert(expected.end(), {"activation", "activation", "concat", "linear"});
  EXPECT_EQ(NamesOfSteps(*several), expected);
  const auto one =
      LoadOrFail(One("SAGEConv", args + R"(["min"])"), SafetensorsBuilder().AddRamp("c.lin_l.weight", {2, 3}));
  EXPECT_THAT(NamesOfSteps(*one), ElementsAre("propagate", "linear"));
}

TEST(SageConvTest, RefusesArguments) {
  ExpectRefused(One("SAGEConv", R"("out_channels": 2, "aggr": "lstm")"), "UNSUPPORTED_ARGUMENT", "layers[0].args.aggr",
                "supported: mean, max, min, sum, add");
  ExpectRefused(One("SAGEConv", R"("out_channels": 2, "aggr": ["mean", "softmax"])"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.aggr[1]", "is \"softmax\"; supported: mean");
  ExpectRefused(One("SAGEConv", R"("out_channels": 2, "aggr": [])"), "BAD_ARCHITECTURE", "layers[0].args.aggr",
                "1 to 64");
  ExpectRefused(One("SAGEConv", R"("out_channels": 2, "aggr": 3)"), "UNSUPPORTED_ARGUMENT", "layers[0].args.aggr",
                "is 3; supported");
  ExpectRefused(One("SAGEConv", R"("out_channels": 2)", R"(, "edge_weight": true)"), "UNSUPPORTED_ARGUMENT",
                "layers[0].edge_weight", "does not support edge weights");
}

PropagateStep GraphPropagate(const std::string& args, const std::string& more = "") {
  const auto weights = SafetensorsBuilder()
                           .AddRamp("c.lin_rel.weight", {2, 3})
                           .AddRamp("c.lin_rel.bias", {2})
                           .AddRamp("c.lin_root.weight", {2, 3});
  const auto model = LoadOrFail(One("GraphConv", R"("out_channels": 2)" + args, more), weights);
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("propagate", "linear", "linear", "add"));
  const auto& relation = std::get<LinearStep>(model->steps[1].op);
  EXPECT_EQ(relation.weight->name, "c.lin_rel.weight");
  EXPECT_EQ(relation.bias->name, "c.lin_rel.bias");
  const auto& root = std::get<LinearStep>(model->steps[2].op);
  EXPECT_EQ(root.weight->name, "c.lin_root.weight");
  EXPECT_EQ(root.bias, nullptr);
  EXPECT_THAT(model->steps[2].inputs, ElementsAre(kInputValue));
  EXPECT_EQ(model->uses_edge_weight, !more.empty());
  return std::get<PropagateStep>(model->steps[0].op);
}

TEST(GraphConvTest, Arguments) {
  EXPECT_EQ(GraphPropagate("").reduce, Reduce::kSum);
  EXPECT_EQ(GraphPropagate("").adjacency, AdjacencySpec());
  for (const auto& [aggr, reduce] :
       {std::pair("add", Reduce::kSum), std::pair("sum", Reduce::kSum), std::pair("mean", Reduce::kMean),
        std::pair("max", Reduce::kMax), std::pair("min", Reduce::kMin)}) {
    const PropagateStep step =
        GraphPropagate(std::string(R"(, "in_channels": -1, "aggr": ")") + aggr + "\"", R"(, "edge_weight": true)");
    EXPECT_EQ(step.reduce, reduce);
    EXPECT_EQ(step.adjacency, (AdjacencySpec{SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSent}));
    EXPECT_EQ(step.self_scale, 0.0);
  }
}

TEST(GraphConvTest, WithoutBias) {
  const auto weights = SafetensorsBuilder().AddRamp("c.lin_rel.weight", {2, 3}).AddRamp("c.lin_root.weight", {2, 3});
  const auto model = LoadOrFail(One("GraphConv", R"("out_channels": 2, "bias": false)"), weights);
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("propagate", "linear", "linear", "add"));
  EXPECT_EQ(std::get<LinearStep>(model->steps[1].op).bias, nullptr);
}

TEST(GraphConvTest, RefusesArgumentsAndTensors) {
  ExpectRefused(One("GraphConv", ""), "BAD_ARCHITECTURE", "layers[0].args.out_channels",
                "needs the argument 'out_channels'");
  ExpectRefused(One("GraphConv", R"("out_channels": 2, "in_channels": 4)"), "BAD_ARCHITECTURE",
                "layers[0].args.in_channels", "its input has 3 columns");
  ExpectRefused(One("GraphConv", R"("out_channels": 2, "in_channels": [3, 3])"), "BAD_ARCHITECTURE",
                "layers[0].args.in_channels", "must be an integer");
  ExpectRefused(One("GraphConv", R"("out_channels": 2, "aggr": "mul")"), "UNSUPPORTED_ARGUMENT", "layers[0].args.aggr",
                "supported: mean, max, min, sum, add");
  ExpectRefused(One("GraphConv", R"("out_channels": 2, "flow": "target_to_source")"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.flow", "source to target");
  ExpectRefused(One("GraphConv", R"("out_channels": 2, "normalize": true)"), "BAD_ARCHITECTURE",
                "layers[0].args.normalize", "no argument 'normalize'");
  ExpectRefused(One("GraphConv", R"("out_channels": 2)"), "TENSOR_MISSING", "c.lin_rel.weight",
                "'c.lin_rel.weight' [2, 3]");
  const auto no_root = SafetensorsBuilder().AddRamp("c.lin_rel.weight", {2, 3}).AddRamp("c.lin_rel.bias", {2});
  ExpectRefused(One("GraphConv", R"("out_channels": 2)"), no_root.Build(), "TENSOR_MISSING", "c.lin_root.weight",
                "'c.lin_root.weight' [2, 3]");
}

constexpr char kGinNn[] =
    R"("nn": [{"type": "Linear", "args": {"out_channels": 4}}, {"type": "BatchNorm1d"}, {"type": "ReLU"},
                                    {"type": "Linear", "prefix": "last.", "args": {"out_channels": 2}}])";
SafetensorsBuilder GinWeights() {
  return SafetensorsBuilder()
      .AddRamp("c.nn.0.weight", {4, 3})
      .AddRamp("c.nn.0.bias", {4})
      .AddRamp("c.nn.1.running_mean", {4})
      .AddRamp("c.nn.1.running_var", {4}, 0.5f)
      .AddRamp("c.nn.1.weight", {4})
      .AddRamp("c.nn.1.bias", {4})
      .AddRamp("c.nn.last.weight", {2, 4})
      .AddRamp("c.nn.last.bias", {2});
}

TEST(GinConvTest, NestedLayersAndEps) {
  const auto model = LoadOrFail(One("GINConv", kGinNn + std::string(R"(, "eps": 0.5)")), GinWeights());
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("propagate", "linear", "batch_norm", "activation", "linear"));
  EXPECT_EQ(std::get<PropagateStep>(model->steps[0].op).self_scale, 1.5);
  EXPECT_EQ(model->class_count, 2);
  // The buffer or parameter in the file stands above the argument.
  const auto trained =
      LoadOrFail(One("GINConv", kGinNn + std::string(R"(, "eps": 0.5)")), GinWeights().Add("c.eps", {1}, {0.25f}));
  EXPECT_EQ(std::get<PropagateStep>(trained->steps[0].op).self_scale, 1.25);
}

TEST(GinConvTest, RefusesArguments) {
  ExpectRefused(One("GINConv", ""), "BAD_ARCHITECTURE", "layers[0].args.nn", "needs the argument 'nn'");
  ExpectRefused(One("GINConv", R"("nn": [])"), "BAD_ARCHITECTURE", "layers[0].args.nn", "list of 1 to");
  ExpectRefused(One("GINConv", R"("nn": [3])"), "BAD_ARCHITECTURE", "layers[0].args.nn[0]", "must be an object");
  ExpectRefused(One("GINConv", R"("nn": [{"type": "GCNConv", "args": {"out_channels": 3}}])"), "BAD_ARCHITECTURE",
                "layers[0].args.nn[0].type", "'GCNConv' is not supported inside another layer");
  ExpectRefused(One("GINConv", R"("nn": [{"type": "ReLU"}, {"type": "Linear", "args": {"out_channels": "3"}}])"),
                "BAD_ARCHITECTURE", "layers[0].args.nn[1].args.out_channels", "must be an integer");
  ExpectRefused(One("GINConv", R"("nn": [{"type": "ReLU"}], "train_eps": true)"), "TENSOR_MISSING", "c.eps",
                "'c.eps' [1]");
}

SafetensorsBuilder GatWeights(int64_t heads, int64_t width, bool concat) {
  return SafetensorsBuilder()
      .AddRamp("c.lin.weight", {heads * width, 3})
      .AddRamp("c.att_src", {1, heads, width})
      .AddRamp("c.att_dst", {1, heads, width})
      .AddRamp("c.bias", {concat ? heads * width : width});
}

TEST(GatConvTest, HeadsAreJoinedOrAveraged) {
  const auto joined = LoadOrFail(One("GATConv", R"("out_channels": 2, "heads": 4, "dropout": 0.6, "edge_dim": null)"),
                                 GatWeights(4, 2, true));
  EXPECT_THAT(NamesOfSteps(*joined), ElementsAre("linear", "attention", "bias"));
  EXPECT_EQ(joined->class_count, 8);
  const auto& step = std::get<AttentionStep>(joined->steps[1].op);
  EXPECT_EQ(step.heads, 4);
  EXPECT_EQ(step.head_width, 2);
  EXPECT_EQ(step.negative_slope, 0.2);
  EXPECT_EQ(step.adjacency.loops, SelfLoops::kReplace);
  EXPECT_THAT(step.att_src->shape, ElementsAre(8));
  const auto averaged =
      LoadOrFail(One("GATConv", R"("out_channels": 2, "heads": 4, "concat": false, "add_self_loops": false)"),
                 GatWeights(4, 2, false));
  EXPECT_EQ(averaged->class_count, 2);
  EXPECT_EQ(std::get<AttentionStep>(averaged->steps[1].op).adjacency, AdjacencySpec());
}

TEST(GatConvTest, RefusesArguments) {
  ExpectRefused(One("GATConv", R"("out_channels": 2, "heads": 0)"), "BAD_ARCHITECTURE", "layers[0].args.heads",
                "within 1 and");
  ExpectRefused(One("GATConv", R"("out_channels": 16777216, "heads": 65536)"), "BAD_ARCHITECTURE",
                "layers[0].args.heads", "columns wide");
  ExpectRefused(One("GATConv", R"("out_channels": 2, "negative_slope": 1.5)"), "BAD_ARCHITECTURE",
                "layers[0].args.negative_slope", "within 0 and 1");
  ExpectRefused(One("GATConv", R"("out_channels": 2, "share_weights": true)"), "BAD_ARCHITECTURE",
                "layers[0].args.share_weights", "no argument");
}

TEST(GatV2ConvTest, SharedWeightsMayBeNamedTwiceButNotDiffer) {
  const auto base = SafetensorsBuilder()
                        .AddRamp("c.att", {1, 2, 2})
                        .AddRamp("c.lin_l.weight", {4, 3})
                        .AddRamp("c.lin_l.bias", {4})
                        .AddRamp("c.bias", {4});
  const std::string shared = One("GATv2Conv", R"("out_channels": 2, "heads": 2, "share_weights": true)");
  EXPECT_THAT(NamesOfSteps(*LoadOrFail(shared, base)), ElementsAre("linear", "attention", "bias"));
  auto twice = base;
  const auto model = LoadOrFail(shared, twice.AddRamp("c.lin_r.weight", {4, 3}).AddRamp("c.lin_r.bias", {4}));
  EXPECT_THAT(model->steps[1].inputs, ElementsAre(1, 1));
  EXPECT_EQ(model->parameter_count, 4 + 12 + 4 + 4);
  auto differing = base;
  const auto refused = LoadModel(shared, differing.AddRamp("c.lin_r.weight", {4, 3}, 7.0f).Build());
  EXPECT_EQ(DetailOf(refused.status())->reason, "TENSOR_VALUE");
  auto apart = base;
  const auto two = LoadOrFail(One("GATv2Conv", R"("out_channels": 2, "heads": 2)"),
                              apart.AddRamp("c.lin_r.weight", {4, 3}, 7.0f).AddRamp("c.lin_r.bias", {4}));
  EXPECT_THAT(NamesOfSteps(*two), ElementsAre("linear", "linear", "attention", "bias"));
}

SafetensorsBuilder TransformerWeights(int64_t heads, int64_t width, int64_t out, bool bias) {
  SafetensorsBuilder weights;
  for (const char* name : {"lin_key", "lin_query", "lin_value", "lin_skip"}) {
    const int64_t rows = std::string(name) == "lin_skip" ? out : heads * width;
    weights.AddRamp(std::string("c.") + name + ".weight", {rows, 3});
    if (bias) weights.AddRamp(std::string("c.") + name + ".bias", {rows});
  }
  return weights;
}

TEST(TransformerConvTest, Arguments) {
  const auto plain =
      LoadOrFail(One("TransformerConv", R"("out_channels": 2, "heads": 4, "dropout": 0.1, "edge_dim": null)"),
                 TransformerWeights(4, 2, 8, true));
  EXPECT_THAT(NamesOfSteps(*plain), ElementsAre("linear", "linear", "linear", "attention", "linear", "add"));
  EXPECT_EQ(plain->class_count, 8);
  const auto& step = std::get<AttentionStep>(plain->steps[3].op);
  EXPECT_EQ(step.kind, AttentionKind::kDot);
  EXPECT_EQ(step.adjacency, AdjacencySpec());  // no loops are added
  EXPECT_THAT(plain->steps[3].inputs, ElementsAre(3, 2, 1));
  const auto gated = LoadOrFail(
      One("TransformerConv", R"("out_channels": 2, "heads": 4, "concat": false, "beta": true, "bias": false)"),
      TransformerWeights(4, 2, 2, false).AddRamp("c.lin_beta.weight", {1, 6}));
  EXPECT_THAT(NamesOfSteps(*gated), ElementsAre("linear", "linear", "linear", "attention", "linear", "gate"));
  EXPECT_EQ(gated->class_count, 2);
  // The state_dict has lin_skip, and there is no gate, whatever `beta` says.
  const std::string rootless =
      One("TransformerConv", R"("out_channels": 2, "heads": 4, "root_weight": false, "beta": true)");
  EXPECT_THAT(NamesOfSteps(*LoadOrFail(rootless, TransformerWeights(4, 2, 8, true))),
              ElementsAre("linear", "linear", "linear", "attention"));
  const auto wrong = LoadModel(rootless, TransformerWeights(4, 2, 2, true).Build());
  EXPECT_EQ(DetailOf(wrong.status())->reason, "TENSOR_SHAPE");
  EXPECT_EQ(DetailOf(wrong.status())->field, "c.lin_skip.weight");
}

TEST(TransformerConvTest, RefusesArguments) {
  ExpectRefused(One("TransformerConv", R"("out_channels": 2, "add_self_loops": true)"), "BAD_ARCHITECTURE",
                "layers[0].args.add_self_loops", "no argument");
  ExpectRefused(One("TransformerConv", R"("out_channels": 2, "beta": 1)"), "BAD_ARCHITECTURE", "layers[0].args.beta",
                "true or false");
  ExpectRefused(One("TransformerConv", R"("out_channels": 2)", R"(, "edge_weight": true)"), "UNSUPPORTED_ARGUMENT",
                "layers[0].edge_weight", "does not support edge weights");
  ExpectRefused(One("TransformerConv", R"("out_channels": 2)"), "TENSOR_MISSING", "c.lin_key.weight",
                "'c.lin_key.weight' [2, 3]");
}

TEST(SgConvTest, Arguments) {
  const auto weights = SafetensorsBuilder().AddRamp("c.lin.weight", {2, 3}).AddRamp("c.lin.bias", {2});
  const auto three =
      LoadOrFail(One("SGConv", R"("out_channels": 2, "K": 3, "cached": true)", R"(, "edge_weight": true)"), weights);
  EXPECT_THAT(NamesOfSteps(*three), ElementsAre("propagate", "propagate", "propagate", "linear"));
  EXPECT_EQ(std::get<PropagateStep>(three->steps[2].op).adjacency,
            (AdjacencySpec{SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnSent}));
  EXPECT_TRUE(three->uses_edge_weight);
  const auto one = LoadOrFail(One("SGConv", R"("out_channels": 2, "add_self_loops": false)"), weights);
  EXPECT_THAT(NamesOfSteps(*one), ElementsAre("propagate", "linear"));
  EXPECT_EQ(std::get<PropagateStep>(one->steps[0].op).adjacency,
            (AdjacencySpec{SelfLoops::kAsSent, 1.0f, EdgeWeighting::kGcnOnes}));
  EXPECT_THAT(NamesOfSteps(*LoadOrFail(One("SGConv", R"("out_channels": 2, "K": 0)"), weights)), ElementsAre("linear"));
  ExpectRefused(One("SGConv", R"("out_channels": 2, "K": -1)"), "BAD_ARCHITECTURE", "layers[0].args.K", "within 0 and");
  ExpectRefused(One("SGConv", R"("out_channels": 2, "improved": true)"), "BAD_ARCHITECTURE", "layers[0].args.improved",
                "no argument");
}

TEST(AppnpTest, Arguments) {
  const auto model = LoadOrFail(One("APPNP", R"("K": 2, "alpha": 0.25, "dropout": 0.5, "cached": true)"), {});
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("propagate", "add", "propagate", "add"));
  EXPECT_EQ(std::get<AddStep>(model->steps[3].op).a_scale, 0.75);
  EXPECT_EQ(std::get<AddStep>(model->steps[3].op).b_scale, 0.25);
  EXPECT_THAT(model->steps[3].inputs, ElementsAre(3, kInputValue));
  const auto plain =
      LoadOrFail(One("APPNP", R"("K": 1, "alpha": 0, "normalize": false)", R"(, "edge_weight": true)"), {});
  EXPECT_EQ(std::get<PropagateStep>(plain->steps[0].op).adjacency,
            (AdjacencySpec{SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSent}));
  ExpectRefused(One("APPNP", R"("K": 2)"), "BAD_ARCHITECTURE", "layers[0].args.alpha", "needs the argument 'alpha'");
  ExpectRefused(One("APPNP", R"("alpha": 0.1)"), "BAD_ARCHITECTURE", "layers[0].args.K", "needs the argument 'K'");
  ExpectRefused(One("APPNP", R"("K": 2, "alpha": 1.5)"), "BAD_ARCHITECTURE", "layers[0].args.alpha", "within 0 and 1");
  ExpectRefused(One("APPNP", R"("K": 2, "alpha": null)"), "BAD_ARCHITECTURE", "layers[0].args.alpha",
                "must be a number");
  ExpectRefused(One("APPNP", R"("K": 0, "alpha": 0.5)"), "BAD_ARCHITECTURE", "layers[0]", "computes nothing");
}

TEST(AppnpTest, StepsStayBounded) {
  std::string layers;
  for (int i = 0; i < 20; ++i) {
    layers += std::string(i == 0 ? "" : ", ") + R"({"name": "p)" + std::to_string(i) +
              R"(", "type": "APPNP", "args": {"K": 1000, "alpha": 0.5}})";
  }
  ExpectRefused(R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [)" + layers + "]}", "BAD_ARCHITECTURE",
                "layers[16]", "more than 32768 steps");
}

// An EdgeConv whose nn is `layers`.
std::string Edge(const std::string& layers, const std::string& more = "") {
  return One("EdgeConv", R"("nn": [)" + layers + "]" + more);
}
constexpr char kLinear[] = R"({"type": "Linear", "args": {"out_channels": 4, "bias": false}})";
constexpr char kRelu[] = R"({"type": "ReLU"})";
constexpr char kNorm[] = R"({"type": "BatchNorm1d", "args": {"affine": false}})";

TEST(EdgeConvTest, Arguments) {
  const auto weights = SafetensorsBuilder()
                           .AddRamp("c.nn.0.weight", {4, 6})
                           .AddRamp("c.nn.2.running_mean", {4})
                           .AddRamp("c.nn.2.running_var", {4}, 0.5f)
                           .AddRamp("c.nn.4.weight", {4, 4});
  const std::string nn = std::string(kLinear) + ", " + kRelu + ", " + kNorm + R"(, {"type": "Dropout"}, )" + kLinear;
  const auto model = LoadOrFail(Edge(nn), weights);
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("edge_conv"));
  EXPECT_EQ(model->layers[0].locality, Locality::kNeighbourhood);
  EXPECT_EQ(model->class_count, 4);
  const auto& step = std::get<EdgeConvStep>(model->steps[0].op);
  EXPECT_EQ(step.reduce, Reduce::kMax);
  EXPECT_EQ(step.adjacency, AdjacencySpec());
  EXPECT_EQ(step.nn.size(), 4u);
  EXPECT_GE(model->size_bytes, (24 + 8 + 16) * 4);
  for (const auto& [aggr, reduce] : {std::pair("mean", Reduce::kMean), std::pair("sum", Reduce::kSum),
                                     std::pair("add", Reduce::kSum), std::pair("min", Reduce::kMin)}) {
    const auto other = LoadOrFail(Edge(nn, std::string(R"(, "aggr": ")") + aggr + R"(")"), weights);
    EXPECT_EQ(std::get<EdgeConvStep>(other->steps[0].op).reduce, reduce);
  }
}

TEST(EdgeConvTest, RefusesNetworksItCannotRun) {
  ExpectRefused(One("EdgeConv", ""), "BAD_ARCHITECTURE", "layers[0].args.nn", "needs the argument 'nn'");
  ExpectRefused(Edge(kRelu), "UNSUPPORTED_ARGUMENT", "layers[0].args.nn[0]", "must begin with a Linear");
  ExpectRefused(Edge(R"({"type": "Identity"})"), "UNSUPPORTED_ARGUMENT", "layers[0].args.nn", "without a Linear");
  ExpectRefused(Edge(R"({"type": "SAGEConv"})"), "BAD_ARCHITECTURE", "layers[0].args.nn[0].type",
                "not supported inside another layer");
  ExpectRefused(Edge(R"({"type": "Linear", "args": {"in_channels": 3, "out_channels": 4}})"), "BAD_ARCHITECTURE",
                "layers[0].args.nn[0].args.in_channels", "its input has 6 columns");
  ExpectRefused(Edge(kLinear, R"(, "aggr": "median")"), "UNSUPPORTED_ARGUMENT", "layers[0].args.aggr",
                "supported: mean, max, min, sum, add");
  ExpectRefused(Edge(kLinear, R"(, "k": 3)"), "BAD_ARCHITECTURE", "layers[0].args.k", "no argument 'k'");
  ExpectRefused(Edge(kLinear), "TENSOR_MISSING", "c.nn.0.weight", "'c.nn.0.weight' [4, 6]");
}

TEST(EdgeConvTest, RefusesMoreLayersThanItHas) {
  const auto first = SafetensorsBuilder().AddRamp("c.nn.0.weight", {4, 6});
  const auto refused = [](const std::string& architecture, const SafetensorsBuilder& weights, const std::string& field,
                          const std::string& message) {
    const auto model = LoadModel(architecture, weights.Build());
    EXPECT_EQ(DetailOf(model.status())->reason, "UNSUPPORTED_ARGUMENT") << model.status();
    EXPECT_EQ(DetailOf(model.status())->field, field);
    EXPECT_THAT(std::string(model.status().message()), HasSubstr(message));
  };
  refused(Edge(std::string(kLinear) + R"(, {"type": "LayerNorm", "args": {"mode": "node", "affine": false}})"), first,
          "layers[0].args.nn[1]", "LayerNorm (layers[0].args.nn[1]) is not supported in EdgeConv's nn");
  std::string deep = kLinear;
  SafetensorsBuilder weights = first;
  for (int i = 1; i < 6; ++i) {
    deep += std::string(", ") + kLinear;
    weights.AddRamp("c.nn." + std::to_string(i) + ".weight", {4, 4});
  }
  refused(Edge(deep), weights, "layers[0].args.nn[5]", "more than 5 layers");
  const SafetensorsBuilder wide = SafetensorsBuilder()
                                      .AddRamp("c.nn.0.weight", {2000, 6})
                                      .AddRamp("c.nn.2.running_mean", {2000})
                                      .AddRamp("c.nn.2.running_var", {2000}, 0.5f);
  refused(Edge(std::string(R"({"type": "Linear", "args": {"out_channels": 2000, "bias": false}}, )") + kRelu + ", " +
               kNorm),
          wide, "layers[0].args.nn[2]", "2000 columns wide");
}

TEST(NormTest, RefusesArgumentsAndValues) {
  ExpectRefused(One("BatchNorm", R"("track_running_stats": false)"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.track_running_stats", "depend on the batch");
  ExpectRefused(One("BatchNorm", R"("eps": 0)"), "BAD_ARCHITECTURE", "layers[0].args.eps", "within");
  ExpectRefused(One("LayerNorm", R"("mode": "batch")"), "UNSUPPORTED_ARGUMENT", "layers[0].args.mode",
                "supported: graph, node");
  ExpectRefused(One("Normalize", R"("p": 1)"), "UNSUPPORTED_ARGUMENT", "layers[0].args.p", "Euclidean");
  const auto negative =
      SafetensorsBuilder().AddRamp("c.module.running_mean", {3}).Add("c.module.running_var", {3}, {1.0f, -1.0f, 1.0f});
  const auto model = LoadModel(One("BatchNorm", R"("affine": false)"), negative.Build());
  EXPECT_EQ(DetailOf(model.status())->reason, "TENSOR_VALUE");
}

TEST(NormTest, LayerNormOverTheGraphHasItsLimits) {
  const std::string gin =
      R"({"name": "c", "type": "GINConv", "args": {"nn": [{"type": "LayerNorm", "args": {"affine": false}}]}}, {"name": "p", "type": "global_add_pool"})";
  const std::string head = R"({"format": "vicinal.model/1", "in_channels": 3, "task": "graph", "layers": [)";
  ExpectRefused(head + gin + "]}", "UNSUPPORTED_ARGUMENT", "layers[0].args.nn[0].args.mode",
                "mix the graphs of a batch");
  ExpectRefused(head + R"({"name": "p", "type": "global_add_pool"}, {"name": "n", "type": "LayerNorm"}]})",
                "UNSUPPORTED_ARGUMENT", "layers[1].args.mode", "use mode 'node'");
  const auto model = LoadOrFail(One("LayerNorm", R"("affine": false)"), SafetensorsBuilder());
  EXPECT_EQ(model->layers[0].locality, Locality::kGraph);
  EXPECT_EQ(
      LoadOrFail(One("LayerNorm", R"("affine": false, "mode": "node")"), SafetensorsBuilder())->layers[0].locality,
      Locality::kNode);
}

TEST(LinearTest, TakesEitherLibrarysNames) {
  const auto weights = SafetensorsBuilder().AddRamp("c.weight", {2, 3}).AddRamp("c.bias", {2});
  EXPECT_EQ(LoadOrFail(One("Linear", R"("in_features": 3, "out_features": 2)"), weights)->class_count, 2);
  EXPECT_EQ(LoadOrFail(One("Linear", R"("in_channels": -1, "out_channels": 2)"), weights)->class_count, 2);
  ExpectRefused(One("Linear", ""), "BAD_ARCHITECTURE", "layers[0].args.out_channels",
                "either out_channels or out_features");
  ExpectRefused(One("Linear", R"("out_channels": 2, "out_features": 2)"), "BAD_ARCHITECTURE",
                "layers[0].args.out_channels", "either");
}

TEST(JumpingKnowledgeTest, Modes) {
  const auto jump = [](const std::string& mode, const std::string& inputs) {
    return R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [{"name": "a", "type": "ReLU"}, {"name": "b", "type": "Tanh"},
        {"name": "j", "type": "JumpingKnowledge", "inputs": [)" +
           inputs + R"(], "args": {"mode": ")" + mode + R"("}}]})";
  };
  const SafetensorsBuilder none;
  EXPECT_EQ(LoadOrFail(jump("cat", R"("a", "b", "x")"), none)->class_count, 9);
  EXPECT_EQ(LoadOrFail(jump("max", R"("a", "b")"), none)->class_count, 3);
  const auto last = LoadOrFail(jump("last", R"("a", "b")"), none);
  EXPECT_EQ(last->FindOutput("j")->value, last->FindOutput("b")->value);
  ExpectRefused(jump("mean", R"("a", "b")"), "UNSUPPORTED_ARGUMENT", "layers[2].args.mode",
                "supported: cat, max, last");
}

TEST(CombineTest, WidthsMustAgree) {
  const auto weights = SafetensorsBuilder().AddRamp("a.weight", {2, 3});
  for (const char* type : {R"("Add")", R"("JumpingKnowledge", "args": {"mode": "max"})"}) {
    const std::string architecture =
        std::string(
            R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [{"name": "a", "type": "Linear", "args": {"out_channels": 2, "bias": false}},
                     {"name": "s", "inputs": ["a", "x"], "type": )") +
        type + "}]}";
    const auto model = LoadModel(architecture, weights.Build());
    EXPECT_EQ(DetailOf(model.status())->reason, "BAD_ARCHITECTURE");
    EXPECT_THAT(std::string(model.status().message()), HasSubstr("2 and 3 columns"));
  }
}

TEST(CombineTest, ConcatenationsStayBounded) {
  std::string layers = R"({"name": "a0", "type": "ReLU"})";
  for (int i = 1; i <= 30; ++i) {
    const std::string before = "\"a" + std::to_string(i - 1) + "\"";
    layers += R"(, {"name": "a)" + std::to_string(i) +
              R"(", "type": "JumpingKnowledge", "args": {"mode": "cat"}, "inputs": [)" + before + "," + before + "]}";
  }
  ExpectRefused(R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [)" + layers + "]}", "BAD_ARCHITECTURE",
                "layers[23].inputs", "columns wide");
}

}  // namespace
}  // namespace vicinal

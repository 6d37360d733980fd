// SPDX-License-Identifier: Apache-2.0
// Layers that are several propagations: their arguments, the steps that they give, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

// A model of one layer "c" over 3 features.
std::string Layer(const std::string& type, const std::string& args, const std::string& more = "") {
  return R"({"format": "vicinal.model/1", "in_channels": 3, "layers": [{"name": "c", "type": ")" + type +
         R"(", "args": {)" + args + "}" + more + "}]}";
}

// Number `index` of a tensor of AddRamp.
float Ramp(int index) { return -0.5f + 0.125f * static_cast<float>(index % 11); }

constexpr char kWeighted[] = R"(, "edge_weight": true)";

template <class Op>
const Op& StepOf(const Model& model, size_t index) {
  return std::get<Op>(model.steps.at(index).op);
}

AdjacencySpec FirstAdjacency(const Model& model) {
  for (const Step& step : model.steps) {
    if (const auto* propagate = std::get_if<PropagateStep>(&step.op)) return propagate->adjacency;
  }
  ADD_FAILURE() << "no propagate";
  return {};
}

TEST(LgConvTest, HasNoLoopsAndNoWeights) {
  EXPECT_THAT(NamesOfSteps(*LoadOrFail(Layer("LGConv", ""))), ElementsAre("propagate"));
  EXPECT_EQ(FirstAdjacency(*LoadOrFail(Layer("LGConv", ""))),
            (AdjacencySpec{SelfLoops::kAsSent, 1.0f, EdgeWeighting::kGcnOnes}));
  EXPECT_EQ(FirstAdjacency(*LoadOrFail(Layer("LGConv", R"("normalize": false)", kWeighted))),
            (AdjacencySpec{SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSent}));
}

TEST(SsgConvTest, SharesOutWhatAlphaLeaves) {
  const auto weights = SafetensorsBuilder().AddRamp("c.lin.weight", {2, 3}).AddRamp("c.lin.bias", {2});
  const auto model = LoadOrFail(Layer("SSGConv", R"("out_channels": 2, "alpha": 0.2, "K": 2)", kWeighted), weights);
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("propagate", "add", "propagate", "add", "linear"));
  EXPECT_EQ(FirstAdjacency(*model), (AdjacencySpec{SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnSent}));
  EXPECT_EQ(StepOf<AddStep>(*model, 1).a_scale, 0.2);
  EXPECT_EQ(StepOf<AddStep>(*model, 3).a_scale, 1.0);
  EXPECT_EQ(StepOf<AddStep>(*model, 3).b_scale, 0.4);
  ExpectRefused(Layer("SSGConv", R"("out_channels": 2)"), "BAD_ARCHITECTURE", "layers[0].args.alpha", "needs");
  ExpectRefused(Layer("SSGConv", R"("out_channels": 2, "alpha": 0.2, "K": 0)"), "BAD_ARCHITECTURE", "layers[0].args.K",
                "within 1 and 1000");
}

TEST(TagConvTest, MultipliesEachHop) {
  const auto weights =
      SafetensorsBuilder().AddRamp("c.lins.0.weight", {2, 3}).AddRamp("c.lins.1.weight", {2, 3}).AddRamp("c.bias", {2});
  const auto model = LoadOrFail(Layer("TAGConv", R"("out_channels": 2, "K": 1)"), weights);
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "propagate", "linear", "add", "bias"));
  EXPECT_EQ(FirstAdjacency(*model), (AdjacencySpec{SelfLoops::kAsSent, 1.0f, EdgeWeighting::kGcnOnes}));
  ExpectRefused(Layer("TAGConv", R"("out_channels": 2, "K": 2)"), weights.Build(), "TENSOR_MISSING", "c.lins.2.weight",
                "c.lins.2.weight");
}

TEST(ClusterGcnConvTest, LambdaWeighsTheLoops) {
  const auto weights = SafetensorsBuilder()
                           .AddRamp("c.lin_out.weight", {2, 3})
                           .AddRamp("c.lin_out.bias", {2})
                           .AddRamp("c.lin_root.weight", {2, 3});
  const auto plain = LoadOrFail(Layer("ClusterGCNConv", R"("out_channels": 2)"), weights);
  EXPECT_THAT(NamesOfSteps(*plain), ElementsAre("propagate", "linear", "linear", "add"));
  EXPECT_EQ(StepOf<PropagateStep>(*plain, 0).reduce, Reduce::kMean);
  EXPECT_EQ(FirstAdjacency(*plain), (AdjacencySpec{SelfLoops::kReplace, 1.0f, EdgeWeighting::kNone}));
  const auto more = LoadOrFail(Layer("ClusterGCNConv", R"("out_channels": 2, "diag_lambda": 0.5)"), weights);
  EXPECT_EQ(StepOf<PropagateStep>(*more, 0).reduce, Reduce::kSum);
  EXPECT_EQ(FirstAdjacency(*more), (AdjacencySpec{SelfLoops::kReplace, 1.5f, EdgeWeighting::kMeanOnes}));
  ExpectRefused(Layer("ClusterGCNConv", R"("out_channels": 2, "add_self_loops": false)"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.add_self_loops", "layer fails without");
  ExpectRefused(Layer("ClusterGCNConv", R"("out_channels": 2)", kWeighted), "UNSUPPORTED_ARGUMENT",
                "layers[0].edge_weight", "does not support edge weights");
}

TEST(Gcn2ConvTest, MixesTwoInputs) {
  const char* inputs = R"(, "inputs": ["x", "x"])";
  const auto one = SafetensorsBuilder().AddRamp("c.weight1", {3, 3});
  const auto plain = LoadOrFail(Layer("GCN2Conv", R"("channels": 3, "alpha": 0.25)", inputs), one);
  EXPECT_THAT(NamesOfSteps(*plain), ElementsAre("propagate", "add", "linear"));
  EXPECT_EQ(StepOf<AddStep>(*plain, 1).a_scale, 0.75);
  EXPECT_EQ(StepOf<LinearStep>(*plain, 2).weight->values[1], Ramp(3));
  const auto beta = LoadOrFail(Layer("GCN2Conv", R"("alpha": 0.25, "theta": 0.5, "layer": 2)", inputs), one);
  EXPECT_THAT(NamesOfSteps(*beta), ElementsAre("propagate", "add", "linear", "add"));
  EXPECT_EQ(StepOf<AddStep>(*beta, 3).a_scale, std::log(1.25));
  const auto apart = LoadOrFail(Layer("GCN2Conv", R"("alpha": 0.25, "shared_weights": false)", inputs),
                                SafetensorsBuilder().AddRamp("c.weight1", {3, 3}).AddRamp("c.weight2", {3, 3}));
  EXPECT_THAT(NamesOfSteps(*apart), ElementsAre("propagate", "scale", "scale", "linear", "linear", "add"));
  EXPECT_EQ(FirstAdjacency(*LoadOrFail(Layer("GCN2Conv", R"("alpha": 0.25, "normalize": false)", inputs), one)),
            AdjacencySpec());
}

TEST(Gcn2ConvTest, RefusesArgumentsAndInputs) {
  ExpectRefused(Layer("GCN2Conv", R"("alpha": 0.25)"), "BAD_ARCHITECTURE", "layers[0].inputs",
                "has 1 inputs; it takes 2");
  ExpectRefused(Layer("GCN2Conv", R"("alpha": 0.25, "layer": 2)", R"(, "inputs": ["x", "x"])"), "BAD_ARCHITECTURE",
                "layers[0].args.theta", "needs both theta and layer");
  ExpectRefused(Layer("GCN2Conv", R"("alpha": 0.25, "channels": 4)", R"(, "inputs": ["x", "x"])"), "BAD_ARCHITECTURE",
                "layers[0].args.channels", "its input has 3 columns");
}

TEST(ArmaConvTest, RunsStacksSideBySide) {
  const auto weights = SafetensorsBuilder()
                           .AddRamp("c.init_weight", {2, 3, 4})
                           .AddRamp("c.weight", {1, 2, 4, 4})
                           .AddRamp("c.root_weight", {2, 2, 3, 4})
                           .AddRamp("c.bias", {2, 2, 1, 4});
  const auto model = LoadOrFail(Layer("ARMAConv", R"("out_channels": 4, "num_stacks": 2, "num_layers": 2)"), weights);
  const std::vector<std::string> stack = {"linear", "propagate", "linear", "add", "activation",
                                          "linear", "propagate", "linear", "add", "activation"};
  std::vector<std::string> expected = stack;
  expected.insert(expected.end(), stack.begin(), stack.end());
  expected.insert(expected.end(), {"add", "scale"});
  EXPECT_EQ(NamesOfSteps(*model), expected);
  EXPECT_EQ(StepOf<ScaleStep>(*model, 21).factor, 0.5);
  // Column 1 of the second stack's root weight of the second layer, and its bias.
  EXPECT_FLOAT_EQ(StepOf<LinearStep>(*model, 17).weight->values[3], Ramp(37));
  EXPECT_FLOAT_EQ(StepOf<LinearStep>(*model, 17).bias->values[0], Ramp(12));
}

TEST(ArmaConvTest, SharesWeightsAndHasOneItDoesNotRead) {
  const auto weights = SafetensorsBuilder()
                           .AddRamp("c.init_weight", {1, 3, 2})
                           .AddRamp("c.weight", {1, 1, 2, 2})
                           .AddRamp("c.root_weight", {1, 1, 3, 2});
  for (const char* args :
       {R"("out_channels": 2, "bias": false, "act": null)",
        R"("out_channels": 2, "bias": false, "act": null, "num_layers": 2, "shared_weights": true)"}) {
    LoadOrFail(Layer("ARMAConv", args), weights);
  }
}

TEST(ArmaConvTest, RefusesArguments) {
  ExpectRefused(Layer("ARMAConv", R"("out_channels": 2, "num_stacks": 4096, "num_layers": 2)"), "BAD_ARCHITECTURE",
                "layers[0].args.num_stacks", "8192; at most 4096");
  const auto weights = SafetensorsBuilder()
                           .AddRamp("c.init_weight", {1, 3, 2})
                           .AddRamp("c.root_weight", {1, 1, 3, 2})
                           .AddRamp("c.bias", {1, 1, 1, 2});
  ExpectRefused(Layer("ARMAConv", R"("out_channels": 2, "act": "prelu")"), weights.Build(), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.act", "'prelu', which is not supported");
  ExpectRefused(Layer("ARMAConv", R"("out_channels": 2, "act_kwargs": {"alpha": 2})"), weights.Build(),
                "BAD_ARCHITECTURE", "layers[0].args.act_kwargs.alpha", "ReLU has no argument 'alpha'");
  ExpectRefused(Layer("ARMAConv", R"("out_channels": 2, "act_kwargs": 2)"), weights.Build(), "BAD_ARCHITECTURE",
                "layers[0].args.act_kwargs", "an object");
}

TEST(ChebConvTest, FollowsTheRecurrence) {
  const auto weights = SafetensorsBuilder()
                           .AddRamp("c.lins.0.weight", {2, 3})
                           .AddRamp("c.lins.1.weight", {2, 3})
                           .AddRamp("c.lins.2.weight", {2, 3})
                           .AddRamp("c.bias", {2});
  const auto model = LoadOrFail(Layer("ChebConv", R"("out_channels": 2, "K": 3)"), weights);
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "propagate", "scale", "linear", "add", "propagate", "add",
                                                "linear", "add", "bias"));
  EXPECT_EQ(StepOf<AddStep>(*model, 6).a_scale, -2.0);
  EXPECT_EQ(StepOf<AddStep>(*model, 6).b_scale, -1.0);
  EXPECT_EQ(model->steps[6].inputs[1], kInputValue);
  EXPECT_EQ(FirstAdjacency(*model), (AdjacencySpec{SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSourceSymOnes}));
  const auto walk =
      LoadOrFail(Layer("ChebConv", R"("out_channels": 2, "K": 3, "normalization": "rw")", kWeighted), weights);
  EXPECT_EQ(FirstAdjacency(*walk), (AdjacencySpec{SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSourceMeanSent}));
  ExpectRefused(Layer("ChebConv", R"("out_channels": 2, "K": 3, "normalization": null)"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.normalization", "supported: sym, rw");
  ExpectRefused(Layer("ChebConv", R"("out_channels": 2)"), "BAD_ARCHITECTURE", "layers[0].args.K", "needs");
}

TEST(GatedGraphConvTest, PadsAndRunsAGru) {
  const auto weights = SafetensorsBuilder()
                           .AddRamp("c.weight", {1, 4, 4})
                           .AddRamp("c.rnn.weight_ih", {12, 4})
                           .AddRamp("c.rnn.weight_hh", {12, 4})
                           .AddRamp("c.rnn.bias_ih", {12})
                           .AddRamp("c.rnn.bias_hh", {12});
  const auto model =
      LoadOrFail(Layer("GatedGraphConv", R"("out_channels": 4, "num_layers": 1, "aggr": "mean")", kWeighted), weights);
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "linear", "propagate", "linear", "linear", "add",
                                                "activation", "linear", "linear", "add", "activation", "linear",
                                                "multiply", "linear", "add", "activation", "add", "multiply", "add"));
  EXPECT_EQ(StepOf<LinearStep>(*model, 0).weight->values,
            (std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}));  // padding
  EXPECT_EQ(StepOf<PropagateStep>(*model, 2).reduce, Reduce::kMean);
  EXPECT_EQ(FirstAdjacency(*model).weighting, EdgeWeighting::kSent);
  EXPECT_FLOAT_EQ(StepOf<LinearStep>(*model, 13).bias->values[0], Ramp(8));  // the candidate's
  ExpectRefused(Layer("GatedGraphConv", R"("out_channels": 2, "num_layers": 1)"), "BAD_ARCHITECTURE",
                "layers[0].args.out_channels", "not be below the input's 3 columns");
  ExpectRefused(Layer("GatedGraphConv", R"("out_channels": 4, "num_layers": 1, "aggr": "lstm")"),
                "UNSUPPORTED_ARGUMENT", "layers[0].args.aggr", "supported: mean");
}

}  // namespace
}  // namespace vicinal

// SPDX-License-Identifier: Apache-2.0
// PNAConv, FAConv, SuperGATConv, DirGNNConv, out-degrees, and readouts of deviations: steps that arguments give, and
// what is refused. Numbers are the business of the references.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/engine/model/model_testing.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using testing::ExpectRefused;
using testing::LoadOrFail;
using testing::NamesOfSteps;
using testing::SafetensorsBuilder;

// A model of one layer "c" over 4 features; `more`: beside its arguments.
std::string DirectedModel(const std::string& type, const std::string& args, const std::string& more = "",
                          const std::string& task = "node") {
  return R"({"format": "vicinal.model/1", "in_channels": 4, "task": ")" + task +
         R"(", "layers": [{"name": "c", "type": ")" + type + R"(", "args": {)" + args + "}" + more + "}]}";
}

template <class S>
std::vector<S> EveryStep(const Model& model) {
  std::vector<S> steps;
  for (const Step& step : model.steps) {
    if (const auto* found = std::get_if<S>(&step.op)) steps.push_back(*found);
  }
  return steps;
}

// The expression over edges; others are over rows of nodes.
ExpressionStep OverEdges(const Model& model) {
  for (const ExpressionStep& step : EveryStep<ExpressionStep>(model)) {
    if (step.program->over_edges) return step;
  }
  ADD_FAILURE() << "no expression over edges";
  return {};
}

// --- PNAConv ---

SafetensorsBuilder PnaWeights() {
  return SafetensorsBuilder()
      .AddRamp("c.pre_nns.0.0.weight", {4, 8})
      .AddRamp("c.pre_nns.0.0.bias", {4})
      .AddRamp("c.post_nns.0.0.weight", {2, 20})
      .AddRamp("c.post_nns.0.0.bias", {2})
      .AddRamp("c.lin.weight", {2, 2})
      .AddRamp("c.lin.bias", {2})
      .Add("c.aggr_module.avg_deg_lin", {1}, {2.0f})
      .Add("c.aggr_module.avg_deg_log", {1}, {0.5f});
}

constexpr char kPna[] =
    R"("out_channels": 2, "aggregators": ["mean", "std"], "scalers": ["identity", "amplification"])";

TEST(PnaConvTest, ReductionsStandInOneStep) {
  const auto model = LoadOrFail(DirectedModel("PNAConv", kPna), PnaWeights());
  const ExpressionStep step = OverEdges(*model);
  const EdgeProgram& program = *step.program;
  ASSERT_EQ(program.results.size(), 2u);
  EXPECT_EQ(program.results[0].reduce, EdgeReduce::kMean);
  EXPECT_EQ(program.results[1].reduce, EdgeReduce::kStd);
  EXPECT_EQ(program.results[0].value, program.results[1].value);
  // Products are per node: the message adds what both ends have.
  for (const EdgeValue& value : program.values) EXPECT_NE(value.op, EdgeOp::kLinear);
}

TEST(PnaConvTest, FeaturesAreReadWithoutTheirEncoder) {
  const auto weights = SafetensorsBuilder()
                           .AddRamp("c.pre_nns.0.0.weight", {4, 12})
                           .AddRamp("c.pre_nns.0.0.bias", {4})
                           .AddRamp("c.edge_encoder.weight", {4, 3})
                           .AddRamp("c.edge_encoder.bias", {4})
                           .AddRamp("c.post_nns.0.0.weight", {2, 8})
                           .AddRamp("c.post_nns.0.0.bias", {2})
                           .AddRamp("c.lin.weight", {2, 2})
                           .AddRamp("c.lin.bias", {2})
                           .Add("c.aggr_module.avg_deg_lin", {1}, {2.0f})
                           .Add("c.aggr_module.avg_deg_log", {1}, {0.5f});
  const auto model = LoadOrFail(
      DirectedModel("PNAConv", R"("out_channels": 2, "aggregators": ["max"], "scalers": ["identity"], "edge_dim": 3)"),
      weights);
  EXPECT_EQ(model->edge_feature_width, 3);
  const auto messages = EveryStep<EdgeMessageStep>(*model);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].reduce, Reduce::kMax);
  EXPECT_EQ(messages[0].edge_weight->shape, (std::vector<int64_t>{4, 3}));
}

TEST(PnaConvTest, Refusals) {
  const auto pna = [](const std::string& more) { return DirectedModel("PNAConv", R"("out_channels": 2, )" + more); };
  ExpectRefused(pna(R"("scalers": ["identity"])"), "BAD_ARCHITECTURE", "layers[0].args.aggregators",
                "needs aggregators, a list of 1 to 16 names");
  ExpectRefused(pna(R"("aggregators": ["median"], "scalers": ["identity"])"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.aggregators", "has 'median', which is not supported; supported: sum, mean");
  ExpectRefused(pna(R"("aggregators": ["max"], "scalers": ["id"])"), "UNSUPPORTED_ARGUMENT", "layers[0].args.scalers",
                "supported: identity, amplification");
  ExpectRefused(pna(R"("aggregators": ["max"], "scalers": ["identity"], "towers": 3)"), "BAD_ARCHITECTURE",
                "layers[0].args.towers", "must divide out_channels");
  ExpectRefused(pna(R"("aggregators": ["max"], "scalers": ["identity"], "act": "prelu")"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.act", "'prelu', which is not supported");
  auto weights = SafetensorsBuilder().Add("c.aggr_module.avg_deg_lin", {1}, {0.0f});
  ExpectRefused(pna(R"("aggregators": ["max"], "scalers": ["identity"])"), weights.Build(), "TENSOR_VALUE",
                "c.aggr_module.avg_deg_lin", "make the layer with the histogram `deg`");
}

// --- FAConv ---

SafetensorsBuilder FaWeights() {
  return SafetensorsBuilder().AddRamp("c.att_l.weight", {1, 4}).AddRamp("c.att_r.weight", {1, 4});
}
constexpr char kTwice[] = R"(, "inputs": ["x", "x"])";

TEST(FaConvTest, ArgumentsChooseTheAdjacency) {
  const auto adjacency = [](const std::string& args, const std::string& more) {
    const auto model = LoadOrFail(DirectedModel("FAConv", args, kTwice + more), FaWeights());
    return OverEdges(*model).adjacency;
  };
  EXPECT_EQ(adjacency("", ""), (AdjacencySpec{SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnOnes}));
  EXPECT_EQ(adjacency(R"("add_self_loops": false)", ""),
            (AdjacencySpec{SelfLoops::kAsSent, 1.0f, EdgeWeighting::kGcnOnes}));
  EXPECT_EQ(adjacency(R"("normalize": false)", R"(, "edge_weight": true)"),
            (AdjacencySpec{SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSent}));
}

TEST(FaConvTest, TheFirstRowsAreAddedUnlessEpsIsZero) {
  const auto full = LoadOrFail(DirectedModel("FAConv", R"("eps": 0.25)", kTwice), FaWeights());
  EXPECT_EQ(EveryStep<AddStep>(*full).at(0).b_scale, 0.25);
  EXPECT_TRUE(EveryStep<AddStep>(*LoadOrFail(DirectedModel("FAConv", R"("eps": 0)", kTwice), FaWeights())).empty());
}

TEST(FaConvTest, WeightsAreMadeOfOneProduct) {
  const auto model = LoadOrFail(DirectedModel("FAConv", "", kTwice), FaWeights());
  ASSERT_EQ(model->attention.size(), 1u);
  const AttentionSource& source = model->attention[0];
  EXPECT_EQ(source.layer, "c");
  EXPECT_EQ(source.score, AttentionScore::kTanh);
  EXPECT_EQ(source.terms.width, 2);
  EXPECT_EQ(source.step.adjacency.loops, SelfLoops::kAddRemaining);
  EXPECT_EQ(source.step.heads, 1);
  std::vector<std::string> names;
  for (const Step& step : model->attention_steps) names.push_back(StepName(step.op));
  EXPECT_THAT(names, ElementsAre("linear"));
}

TEST(FaConvTest, Refusals) {
  ExpectRefused(DirectedModel("FAConv", ""), "BAD_ARCHITECTURE", "layers[0].inputs", "has 1 inputs; it takes 2");
  ExpectRefused(DirectedModel("FAConv", "", std::string(kTwice) + R"(, "edge_weight": true)"), "BAD_ARCHITECTURE",
                "layers[0].edge_weight", "takes no edge weights with normalize");
  ExpectRefused(DirectedModel("FAConv", R"("normalize": false)", kTwice), "BAD_ARCHITECTURE", "layers[0].edge_weight",
                "needs edge weights without normalize");
  ExpectRefused(DirectedModel("FAConv", R"("aggr": "max")", kTwice), "UNSUPPORTED_ARGUMENT", "layers[0].args.aggr",
                "only 'add'");
}

// --- SuperGATConv ---

TEST(SuperGatConvTest, BothKindsOfScores) {
  const auto weights = SafetensorsBuilder()
                           .AddRamp("c.lin.weight", {6, 4})
                           .AddRamp("c.att_l", {1, 2, 3})
                           .AddRamp("c.att_r", {1, 2, 3})
                           .AddRamp("c.bias", {3});
  const auto mixed =
      LoadOrFail(DirectedModel("SuperGATConv", R"("out_channels": 3, "heads": 2, "concat": false)"), weights);
  const auto step = OverEdges(*mixed);
  EXPECT_EQ(step.adjacency.loops, SelfLoops::kReplace);
  EXPECT_EQ(step.program->results.at(0).reduce, EdgeReduce::kSoftmax);
  EXPECT_EQ(mixed->steps.back().width, 3);
  const auto scaled =
      LoadOrFail(DirectedModel("SuperGATConv",
                               R"("out_channels": 6, "attention_type": "SD", "add_self_loops": false, "bias": false)"),
                 SafetensorsBuilder().AddRamp("c.lin.weight", {6, 4}));
  EXPECT_EQ(OverEdges(*scaled).adjacency, AdjacencySpec());
  EXPECT_EQ(mixed->attention.at(0).score, AttentionScore::kSuperGat);
  EXPECT_EQ(mixed->attention[0].terms.width, 6);
  EXPECT_EQ(mixed->attention[0].step.heads, 2);
  EXPECT_EQ(scaled->attention.at(0).score, AttentionScore::kSuperGatDot);
  EXPECT_EQ(scaled->attention[0].step.adjacency, AdjacencySpec());
  ExpectRefused(DirectedModel("SuperGATConv", R"("out_channels": 3, "attention_type": "XX")"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.attention_type", "MX");
  ExpectRefused(DirectedModel("SuperGATConv", R"("out_channels": 3, "flow": "target_to_source")"),
                "UNSUPPORTED_ARGUMENT", "layers[0].args.flow", "source to target");
}

// --- DirGNNConv and out-degrees ---

TEST(DirGnnConvTest, WrapsAConvolutionForBothDirections) {
  auto weights = SafetensorsBuilder().AddRamp("c.lin.weight", {2, 4}).AddRamp("c.lin.bias", {2});
  for (const std::string side : {"c.conv_in.", "c.conv_out."}) {
    weights.AddRamp(side + "lin_l.weight", {2, 4})
        .AddRamp(side + "lin_l.bias", {2})
        .AddRamp(side + "lin_r.weight", {2, 4});
  }
  const auto model = LoadOrFail(
      DirectedModel("DirGNNConv", R"("alpha": 0.75, "conv": [{"type": "SAGEConv", "args": {"out_channels": 2}}])"),
      weights);
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("propagate", "linear", "propagate", "linear", "add", "linear", "add"));
  const auto propagates = EveryStep<PropagateStep>(*model);
  EXPECT_FALSE(propagates[0].adjacency.transposed);
  EXPECT_TRUE(propagates[1].adjacency.transposed);
  EXPECT_EQ(EveryStep<AddStep>(*model)[0].a_scale, 0.75);  // of the out-edges, the first input
  EXPECT_EQ(model->steps[4].inputs, (std::vector<ValueId>{model->steps[3].output, model->steps[1].output}));
}

TEST(DirGnnConvTest, ConvolutionsGetNoLoops) {
  auto weights = SafetensorsBuilder();
  for (const std::string side : {"c.conv_in.", "c.conv_out."})
    weights.AddRamp(side + "lin.weight", {2, 4}).AddRamp(side + "bias", {2});
  const auto model =
      LoadOrFail(DirectedModel("DirGNNConv",
                               R"("root_weight": false, "conv": [{"type": "GCNConv", "args": {"out_channels": 2}}])"),
                 weights);
  for (const PropagateStep& step : EveryStep<PropagateStep>(*model))
    EXPECT_EQ(step.adjacency.loops, SelfLoops::kAsSent);
}

TEST(DirGnnConvTest, HasNoAttentionOfItsOwn) {
  auto weights = SafetensorsBuilder();
  for (const std::string side : {"c.conv_in.", "c.conv_out."})
    weights.AddRamp(side + "lin.weight", {2, 4}).AddRamp(side + "bias", {2});
  const auto model = LoadOrFail(DirectedModel("DirGNNConv", R"js("root_weight": false, "conv": [{"type": "SuperGATConv",
                                       "args": {"out_channels": 2, "attention_type": "SD"}}])js"),
                                weights);
  EXPECT_TRUE(model->attention.empty());
  EXPECT_TRUE(model->attention_steps.empty());
}

TEST(DirGnnConvTest, Refusals) {
  const auto wrapping = [](const std::string& conv) { return DirectedModel("DirGNNConv", R"("conv": )" + conv); };
  for (const char* conv :
       {R"([{"type": "Linear", "args": {"out_channels": 2}}])", R"([{"type": "LGConv"}, {"type": "LGConv"}])",
        R"([{"type": "FAConv"}])", R"([{"type": "DirGNNConv", "args": {"conv": [{"type": "LGConv"}]}}])"}) {
    ExpectRefused(wrapping(conv), "BAD_ARCHITECTURE", "layers[0].args.conv", "must be a list of one convolution");
  }
  const auto weights = SafetensorsBuilder()
                           .AddRamp("c.conv_in.lin.weight", {4, 3})
                           .AddRamp("c.conv_in.lin.bias", {4})
                           .AddRamp("c.conv_in.nn.0.weight", {2, 4})
                           .AddRamp("c.conv_in.nn.0.bias", {2});
  ExpectRefused(wrapping(R"([{"type": "GINEConv", "args": {"edge_dim": 3, "nn": [{"type": "Linear", )"
                         R"("args": {"out_channels": 2}}]}}])"),
                weights.Build(), "UNSUPPORTED_ARGUMENT", "layers[0].args.conv[0]", "reads features of edges");
}

TEST(OutDegreeTest, CountsEdgesTurnedRound) {
  const auto model = LoadOrFail(
      DirectedModel("MessagePassing", R"_("message": "x_j / max(out_degree_j, 1)", "update": "aggr * degree")_"));
  std::vector<bool> turned;
  for (const PropagateStep& step : EveryStep<PropagateStep>(*model)) turned.push_back(step.adjacency.transposed);
  EXPECT_THAT(turned, ElementsAre(true, false, false));  // the degree of sources, the message, the degree of targets
}

// --- readouts ---

TEST(ReadoutTest, MediansAndRowsInOrder) {
  EXPECT_THAT(NamesOfSteps(*LoadOrFail(DirectedModel("MedianAggregation", "", "", "graph"))), ElementsAre("median"));
  const auto sorted = LoadOrFail(DirectedModel("SortAggregation", R"("k": 3)", "", "graph"));
  EXPECT_EQ(sorted->steps.back().width, 12);
  ExpectRefused(DirectedModel("SortAggregation", "", "", "graph"), "BAD_ARCHITECTURE", "layers[0].args.k", "'k'");
  ExpectRefused(DirectedModel("MedianAggregation", R"("fill_value": 1)", "", "graph"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.fill_value", "an empty graph gives 0");
}

TEST(ReadoutTest, SeveralStandSideBySide) {
  const auto model = LoadOrFail(DirectedModel(
      "MultiAggregation", R"("aggrs": [{"type": "MeanAggregation"}, {"type": "VarAggregation"}])", "", "graph"));
  EXPECT_EQ(model->steps.back().width, 8);
  EXPECT_EQ(NamesOfSteps(*model).back(), "concat");
  ExpectRefused(DirectedModel("MultiAggregation", R"("aggrs": [{"type": "ReLU"}])", "", "graph"), "BAD_ARCHITECTURE",
                "layers[0].args.aggrs[0].type", "must be a readout");
  ExpectRefused(
      DirectedModel("MultiAggregation", R"("mode": "attn", "aggrs": [{"type": "MeanAggregation"}])", "", "graph"),
      "UNSUPPORTED_ARGUMENT", "layers[0].args.mode", "only 'cat'");
}

}  // namespace
}  // namespace vicinal

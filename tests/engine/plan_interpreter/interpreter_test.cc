// SPDX-License-Identifier: Apache-2.0
// The oracle on graphs small enough to reckon by hand: what the reference models do not reach (readouts, norms per
// graph, residuals, activations), and the corners of propagation (loops, duplicates, empty neighbourhoods).
#include "tests/engine/plan_interpreter/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/model/safetensors_builder.h"

namespace vicinal {
namespace {

using ::testing::Pointwise;
using Values = std::vector<double>;

MATCHER(Near, "") {
  const double difference = std::abs(std::get<0>(arg) - std::get<1>(arg));
  return difference <= 1e-12 * (1.0 + std::abs(std::get<1>(arg)));
}

std::string Explicit(int64_t in_channels, const std::string& layers, const std::string& more = "") {
  return R"({"format": "vicinal.model/1", "in_channels": )" + std::to_string(in_channels) + more + R"(, "layers": [)" +
         layers + "]}";
}

// Loads, interprets `output`.
StatusOr<Values> Evaluate(const std::string& architecture, const testing::SafetensorsBuilder& weights,
                          const EdgeList& edges, const Values& x, const std::vector<int64_t>& segments = {},
                          const std::string& output = "logits") {
  VICINAL_ASSIGN_OR_RETURN(const auto model, LoadModel(architecture, weights.Build()));
  InterpreterInput input;
  input.edges = &edges;
  input.x = &x;
  input.segments = segments;
  return Interpret(*model, input, model->FindOutput(output)->value);
}

// 0 -> 1 (twice), 2 -> 1, 1 -> 1, 1 -> 2; node 0 has no in-edge, node 3 no edge.
EdgeList SmallGraph() { return {4, {0, 0, 2, 1, 1}, {1, 1, 1, 1, 2}, {}}; }
EdgeList WeightedGraph() { return {4, {0, 0, 2, 1, 1}, {1, 1, 1, 1, 2}, {0.5f, 2.0f, -1.0f, 3.0f, 4.0f}}; }

testing::SafetensorsBuilder IdentityConv(const std::string& prefix, const std::string& name) {
  return testing::SafetensorsBuilder().Add(prefix + name, {1, 1}, {1.0f});
}

std::string Sage(const std::string& aggr) {
  return Explicit(1, R"({"name": "c", "type": "SAGEConv", "args": {"out_channels": 1, "aggr": ")" + aggr +
                         R"(", "root_weight": false, "bias": false}})");
}

TEST(InterpreterTest, ReducesCountLoopsAndDuplicatesAsSent) {
  const Values x = {-1.0, -2.0, -4.0, -8.0};
  const auto weights = IdentityConv("c.", "lin_l.weight");
  EXPECT_THAT(*Evaluate(Sage("sum"), weights, SmallGraph(), x), Pointwise(Near(), Values{0, -8, -2, 0}));
  EXPECT_THAT(*Evaluate(Sage("mean"), weights, SmallGraph(), x), Pointwise(Near(), Values{0, -2, -2, 0}));
  // Largest of negative numbers; 0 only where there is no in-edge.
  EXPECT_THAT(*Evaluate(Sage("max"), weights, SmallGraph(), x), Pointwise(Near(), Values{0, -1, -2, 0}));
  EXPECT_THAT(*Evaluate(Sage("min"), weights, SmallGraph(), {1, 2, 4, 8}), Pointwise(Near(), Values{0, 1, 2, 0}));
}

TEST(InterpreterTest, NanIsNotLostToAnExtreme) {
  const auto weights = IdentityConv("c.", "lin_l.weight");
  for (const std::string aggr : {"max", "min"}) {
    for (const size_t bad : {0, 1, 2}) {  // the first of node 1's sources, the last, one between
      Values x = {1, 2, 3, 4};
      x[bad] = std::nan("");
      const Values got = *Evaluate(Sage(aggr), weights, SmallGraph(), x);
      EXPECT_TRUE(std::isnan(got[1])) << aggr << " " << bad;
      EXPECT_EQ(std::isnan(got[2]), bad == 1);
    }
  }
}

// Weights -1 and 4 turn signs and order round. A mean divides by the number of in-edges.
TEST(InterpreterTest, GraphConvReducesWeightedRowsAndAddsItsRoot) {
  const auto weights = testing::SafetensorsBuilder()
                           .Add("c.lin_rel.weight", {1, 1}, {1.0f})
                           .Add("c.lin_rel.bias", {1}, {10.0f})
                           .Add("c.lin_root.weight", {1, 1}, {100.0f});
  const Values x = {-1.0, -2.0, -4.0, -8.0};
  const auto run = [&](const std::string& aggr) {
    return *Evaluate(Explicit(1, R"({"name": "c", "type": "GraphConv", "edge_weight": true,
                                     "args": {"out_channels": 1, "aggr": ")" +
                                     aggr + "\"}}"),
                     weights, WeightedGraph(), x);
  };
  EXPECT_THAT(run("add"), Pointwise(Near(), Values{-90, -194.5, -398, -790}));
  EXPECT_THAT(run("mean"), Pointwise(Near(), Values{-90, -191.125, -398, -790}));
  EXPECT_THAT(run("max"), Pointwise(Near(), Values{-90, -186, -398, -790}));
  EXPECT_THAT(run("min"), Pointwise(Near(), Values{-90, -196, -398, -790}));
}

TEST(InterpreterTest, EdgeConvReadsTargetAndDifference) {
  // relu(10 x_i - (x_j - x_i)) + 0.5 per edge.
  const auto edge = [](const std::string& aggr) {
    return Explicit(1, R"({"name": "c", "type": "EdgeConv", "args": {"aggr": ")" + aggr +
                           R"(", "nn": [{"type": "Linear", "args": {"out_channels": 1, "bias": false}},
                               {"type": "ReLU"}, {"type": "Linear", "args": {"out_channels": 1}}]}})");
  };
  const auto weights = testing::SafetensorsBuilder()
                           .Add("c.nn.0.weight", {1, 2}, {10.0f, -1.0f})
                           .Add("c.nn.2.weight", {1, 1}, {1.0f})
                           .Add("c.nn.2.bias", {1}, {0.5f});
  // Into node 1 (x = 2): from 0 twice 21, from 2 18, from itself 20. Into node 2 (x = 4): from 1 42.
  const Values x = {1.0, 2.0, 4.0, 8.0};
  EXPECT_THAT(*Evaluate(edge("max"), weights, SmallGraph(), x), Pointwise(Near(), Values{0, 21.5, 42.5, 0}));
  EXPECT_THAT(*Evaluate(edge("min"), weights, SmallGraph(), x), Pointwise(Near(), Values{0, 18.5, 42.5, 0}));
  EXPECT_THAT(*Evaluate(edge("add"), weights, SmallGraph(), x), Pointwise(Near(), Values{0, 82, 42.5, 0}));
  EXPECT_THAT(*Evaluate(edge("mean"), weights, SmallGraph(), x), Pointwise(Near(), Values{0, 20.5, 42.5, 0}));
}

TEST(InterpreterTest, TransformerAttendsWithDotProductsAndGatesItsRoot) {
  const std::string architecture = Explicit(
      1, R"({"name": "c", "type": "TransformerConv", "args": {"out_channels": 1, "bias": false, "beta": true}})");
  const auto weights = testing::SafetensorsBuilder()
                           .Add("c.lin_key.weight", {1, 1}, {0.5f})
                           .Add("c.lin_query.weight", {1, 1}, {2.0f})
                           .Add("c.lin_value.weight", {1, 1}, {10.0f})
                           .Add("c.lin_skip.weight", {1, 1}, {3.0f})
                           .Add("c.lin_beta.weight", {1, 3}, {0.125f, -0.25f, 0.5f});
  const Values x = {0.1, 0.2, 0.4, 0.8};
  const auto gated = [](double out, double skip) {
    const double gate = 1 / (1 + std::exp(-(0.125 * out - 0.25 * skip + 0.5 * (out - skip))));
    return gate * skip + (1 - gate) * out;
  };
  // Scores into node 1: x_1 x_j, from 0 twice, from 2 and itself; no loops are added.
  const double e0 = std::exp(0.02), e1 = std::exp(0.04), e2 = std::exp(0.08);
  const double out = (2 * e0 * 1 + e1 * 2 + e2 * 4) / (2 * e0 + e1 + e2);
  EXPECT_THAT(
      *Evaluate(architecture, weights, SmallGraph(), x),
      Pointwise(::testing::DoubleNear(1e-6), Values{gated(0, 0.3), gated(out, 0.6), gated(2, 1.2), gated(0, 2.4)}));
}

TEST(InterpreterTest, AppnpReturnsToItsInput) {
  const std::string architecture =
      Explicit(1, R"({"name": "c", "type": "APPNP", "args": {"K": 2, "alpha": 0.25, "normalize": false}})");
  // A x = {0, 2 x_0 + x_1 + x_2, x_1, 0}.
  EXPECT_THAT(*Evaluate(architecture, {}, SmallGraph(), {4, 8, 16, 32}),
              Pointwise(Near(), Values{1, 0.75 * (2 * 1 + 26 + 10) + 2, 0.75 * 26 + 4, 8}));
}

std::string Gcn(const std::string& args, bool edge_weight) {
  return Explicit(1, std::string(R"({"name": "c", "type": "GCNConv", "edge_weight": )") +
                         (edge_weight ? "true" : "false") + R"(, "args": {"out_channels": 1, "bias": false)" + args +
                         "}}");
}

TEST(InterpreterTest, GcnAddsRemainingLoopsUnweighted) {
  const Values x = {1.0, 10.0, 100.0, 1000.0};
  const auto weights = IdentityConv("c.", "lin.weight");
  // Degrees with one loop each: 1, 4, 2, 1. Node 1 keeps one loop; `improved` changes nothing without weights.
  const double d0 = 1, d1 = 1 / std::sqrt(4.0), d2 = 1 / std::sqrt(2.0);
  const Values expected = {1.0, 2 * d0 * d1 + 100 * d2 * d1 + 10 * d1 * d1, 10 * d1 * d2 + 100 * d2 * d2, 1000.0};
  EXPECT_THAT(*Evaluate(Gcn("", false), weights, SmallGraph(), x), Pointwise(Near(), expected));
  EXPECT_THAT(*Evaluate(Gcn(R"(, "improved": true)", false), weights, SmallGraph(), x), Pointwise(Near(), expected));
}

TEST(InterpreterTest, GcnKeepsTheWeightOfLoopsThatAreThere) {
  const Values x = {1.0, 10.0, 100.0, 1000.0};
  const auto weights = IdentityConv("c.", "lin.weight");
  // improved: added loops weigh 2, node 1's own weighs 3. Degrees: 2, 0.5 + 2 - 1 + 3 = 4.5, 4 + 2 = 6, 2.
  const double d0 = 1 / std::sqrt(2.0), d1 = 1 / std::sqrt(4.5), d2 = 1 / std::sqrt(6.0);
  const Values expected = {1.0, 2.5 * d0 * d1 - 100 * d2 * d1 + 3 * 10 * d1 * d1, 4 * 10 * d1 * d2 + 2 * 100 * d2 * d2,
                           1000.0};
  EXPECT_THAT(*Evaluate(Gcn(R"(, "improved": true)", true), weights, WeightedGraph(), x), Pointwise(Near(), expected));
}

TEST(InterpreterTest, GcnTakesTheLastOfSeveralLoops) {
  const EdgeList edges = {1, {0, 0}, {0, 0}, {5.0f, 3.0f}};
  // One loop of weight 3: 3 / (sqrt(3) sqrt(3)) = 1; taking both would give the same, so look at it unnormalised
  // through the degree of a second node.
  const EdgeList two = {2, {0, 0, 0}, {0, 0, 1}, {5.0f, 3.0f, 1.0f}};
  const auto weights = IdentityConv("c.", "lin.weight");
  EXPECT_THAT(*Evaluate(Gcn("", true), weights, edges, {7.0}), Pointwise(Near(), Values{7.0}));
  EXPECT_THAT(*Evaluate(Gcn("", true), weights, two, {1.0, 0.0}),
              Pointwise(Near(), Values{1.0, 1 / std::sqrt(3.0) / std::sqrt(2.0)}));
}

TEST(InterpreterTest, GcnWithoutLoopsGivesZeroForDegreeZero) {
  const Values x = {1.0, 10.0, 100.0, 1000.0};
  const auto weights = IdentityConv("c.", "lin.weight");
  // Degrees 0, 4, 1, 0: messages from node 0 vanish.
  EXPECT_THAT(*Evaluate(Gcn(R"(, "add_self_loops": false)", false), weights, SmallGraph(), x),
              Pointwise(Near(), Values{0, 100 * 0.5 + 10 * 0.25, 10 * 0.5, 0}));
  // Neither loops nor normalisation: the weights as sent.
  EXPECT_THAT(*Evaluate(Gcn(R"(, "normalize": false)", true), weights, WeightedGraph(), x),
              Pointwise(Near(), Values{0, 2.5 - 100 + 30, 40, 0}));
}

TEST(InterpreterTest, EdgeWeightsAreNeeded) {
  const auto result = Evaluate(Gcn("", true), IdentityConv("c.", "lin.weight"), SmallGraph(), {1, 2, 3, 4});
  EXPECT_EQ(result.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(result.status())->reason, "EDGE_WEIGHT_MISSING");
}

TEST(InterpreterTest, GatAttendsOverInEdgesWithOneLoopEach) {
  const std::string architecture = Explicit(
      1, R"({"name": "c", "type": "GATConv", "args": {"out_channels": 1, "residual": true, "negative_slope": 0.5}})");
  const auto weights = testing::SafetensorsBuilder()
                           .Add("c.lin.weight", {1, 1}, {1.0f})
                           .Add("c.att_src", {1, 1, 1}, {1.0f})
                           .Add("c.att_dst", {1, 1, 1}, {-2.0f})
                           .Add("c.res.weight", {1, 1}, {4.0f})
                           .Add("c.bias", {1}, {0.25f});
  const Values x = {1.0, 2.0, 3.0, 5.0};
  const auto leaky = [](double s) { return s > 0 ? s : 0.5 * s; };
  // Node 1: 0 twice, 2, itself once (its own loop is replaced).
  const double e0 = std::exp(leaky(1.0 - 4)), e2 = std::exp(leaky(3.0 - 4)), e1 = std::exp(leaky(2.0 - 4));
  const double f1 = std::exp(leaky(2.0 - 6)), f2 = std::exp(leaky(3.0 - 6));
  const Values expected = {1 + 4 + 0.25, (2 * e0 * 1 + e2 * 3 + e1 * 2) / (2 * e0 + e2 + e1) + 8 + 0.25,
                           (f1 * 2 + f2 * 3) / (f1 + f2) + 12 + 0.25, 5 + 20 + 0.25};
  EXPECT_THAT(*Evaluate(architecture, weights, SmallGraph(), x), Pointwise(Near(), expected));
}

TEST(InterpreterTest, GatWithoutLoopsGivesBiasToNodesWithoutInEdges) {
  const std::string architecture =
      Explicit(1, R"({"name": "c", "type": "GATConv", "args": {"out_channels": 1, "add_self_loops": false}})");
  const auto weights = testing::SafetensorsBuilder()
                           .Add("c.lin.weight", {1, 1}, {1.0f})
                           .Add("c.att_src", {1, 1, 1}, {0.0f})
                           .Add("c.att_dst", {1, 1, 1}, {0.0f})
                           .Add("c.bias", {1}, {0.25f});
  EXPECT_THAT(*Evaluate(architecture, weights, SmallGraph(), {1, 2, 3, 4}),
              Pointwise(Near(), Values{0.25, 7.0 / 4 + 0.25, 2.25, 0.25}));
}

TEST(InterpreterTest, ActivationsAndCombinations) {
  const EdgeList edges = {2, {}, {}, {}};
  const Values x = {-2.0, 3.0};
  const testing::SafetensorsBuilder none;
  const auto one = [&](const std::string& layer) { return *Evaluate(Explicit(1, layer), none, edges, x); };
  EXPECT_THAT(one(R"({"name": "a", "type": "ReLU"})"), Pointwise(Near(), Values{0, 3}));
  EXPECT_THAT(one(R"({"name": "a", "type": "ELU", "args": {"alpha": 2}})"),
              Pointwise(Near(), Values{2 * (std::exp(-2.0) - 1), 3}));
  EXPECT_THAT(one(R"({"name": "a", "type": "LeakyReLU", "args": {"negative_slope": 0.25}})"),
              Pointwise(Near(), Values{-0.5, 3}));
  EXPECT_THAT(one(R"({"name": "a", "type": "Sigmoid"})"),
              Pointwise(Near(), Values{1 / (1 + std::exp(2.0)), 1 / (1 + std::exp(-3.0))}));
  EXPECT_THAT(one(R"({"name": "a", "type": "Tanh"})"), Pointwise(Near(), Values{std::tanh(-2.0), std::tanh(3.0)}));
  EXPECT_THAT(one(R"({"name": "a", "type": "ReLU"}, {"name": "r", "type": "Add", "inputs": ["x", "a", "x"]})"),
              Pointwise(Near(), Values{-4, 9}));
  EXPECT_THAT(
      one(R"({"name": "a", "type": "Tanh"}, {"name": "j", "type": "JumpingKnowledge", "inputs": ["x", "a"], "args": {"mode": "max"}})"),
      Pointwise(Near(), Values{std::tanh(-2.0), 3}));
  EXPECT_THAT(
      one(R"({"name": "a", "type": "ReLU"}, {"name": "j", "type": "JumpingKnowledge", "inputs": ["x", "a"], "args": {"mode": "cat"}})"),
      Pointwise(Near(), Values{-2, 0, 3, 3}));
}

TEST(InterpreterTest, NormalisesRows) {
  const EdgeList edges = {2, {}, {}, {}};
  EXPECT_THAT(*Evaluate(Explicit(2, R"({"name": "n", "type": "Normalize"})"), {}, edges, {3, -4, 0, 0}),
              Pointwise(Near(), Values{0.6, -0.8, 0, 0}));
  const std::string node =
      Explicit(2, R"({"name": "n", "type": "LayerNorm", "args": {"mode": "node", "affine": false, "eps": 0.5}})");
  const double half = 1 / std::sqrt(1.5);
  EXPECT_THAT(*Evaluate(node, {}, edges, {1, 3, 7, 7}), Pointwise(Near(), Values{-half, half, 0, 0}));
}

TEST(InterpreterTest, LayerNormOverTheWholeGraph) {
  const EdgeList edges = {2, {}, {}, {}};
  const std::string layer = R"({"name": "n", "type": "LayerNorm", "args": {"eps": 0.5}})";
  const auto weights = testing::SafetensorsBuilder().Add("n.weight", {1}, {2.0f}).Add("n.bias", {1}, {1.0f});
  // One graph: divided by deviation + eps. Mean 2, deviation 1.
  EXPECT_THAT(*Evaluate(Explicit(1, layer), weights, edges, {1, 3}),
              Pointwise(Near(), Values{1 - 2 / 1.5, 1 + 2 / 1.5}));
  // A batch: each graph by itself, divided by sqrt(variance + eps).
  const EdgeList four = {4, {}, {}, {}};
  const std::string pooled =
      Explicit(1, layer + R"(, {"name": "p", "type": "global_max_pool"})", R"(, "task": "graph")");
  const double half = 1 / std::sqrt(1.5);
  EXPECT_THAT(*Evaluate(pooled, weights, four, {1, 3, 10, 14}, {0, 2, 4}, "n"),
              Pointwise(Near(), Values{1 - 2 * half, 1 + 2 * half, 1 - 4 / std::sqrt(4.5), 1 + 4 / std::sqrt(4.5)}));
}

TEST(InterpreterTest, ReadoutsGiveOneRowPerGraph) {
  const EdgeList edges = {3, {}, {}, {}};
  const Values x = {1, -1, 5, -3, 7, -9};
  const auto pool = [&](const std::string& type, const std::vector<int64_t>& segments) {
    return *Evaluate(Explicit(2, R"({"name": "p", "type": ")" + type + R"("})", R"(, "task": "graph")"), {}, edges, x,
                     segments);
  };
  // The graph in the middle is empty.
  EXPECT_THAT(pool("global_add_pool", {0, 2, 2, 3}), Pointwise(Near(), Values{6, -4, 0, 0, 7, -9}));
  EXPECT_THAT(pool("global_mean_pool", {0, 2, 2, 3}), Pointwise(Near(), Values{3, -2, 0, 0, 7, -9}));
  EXPECT_THAT(pool("global_max_pool", {0, 2, 2, 3}), Pointwise(Near(), Values{5, -1, 0, 0, 7, -9}));
  EXPECT_THAT(pool("global_add_pool", {}), Pointwise(Near(), Values{13, -13}));
}

TEST(InterpreterTest, BatchNormUsesRunningStatistics) {
  const EdgeList edges = {1, {}, {}, {}};
  const auto weights = testing::SafetensorsBuilder()
                           .Add("b.running_mean", {2}, {1, 2})
                           .Add("b.running_var", {2}, {3.5f, 0})
                           .Add("b.weight", {2}, {2, 3})
                           .Add("b.bias", {2}, {10, 20})
                           .AddBytes("b.num_batches_tracked", "I64", {}, std::string(8, '\0'));
  EXPECT_THAT(
      *Evaluate(Explicit(2, R"({"name": "b", "type": "BatchNorm1d", "args": {"eps": 0.5}})"), weights, edges, {5, 3}),
      Pointwise(Near(), Values{4.0 / 2 * 2 + 10, 1 / std::sqrt(0.5) * 3 + 20}));
}

TEST(InterpreterTest, FeaturesMustFit) {
  const auto result = Evaluate(Explicit(2, R"({"name": "a", "type": "ReLU"})"), {}, SmallGraph(), {1, 2, 3});
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), ::testing::HasSubstr("4 rows of 2"));
}

}  // namespace
}  // namespace vicinal

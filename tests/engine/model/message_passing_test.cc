// SPDX-License-Identifier: Apache-2.0
// MessagePassing: the steps that expressions become, and what is refused, with its place. That the numbers are right is
// the business of the references (tests/data/message_functions.py).
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/engine/model/model_testing.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using testing::ExpectRefused;
using ::testing::FloatEq;
using testing::LoadOrFail;
using testing::NamesOfSteps;
using testing::SafetensorsBuilder;

std::string OfMessage(const std::string& args, int width = 2) {
  return testing::OfOneLayer("MessagePassing", args, width);
}
std::string Message(const std::string& text, const std::string& more = "") {
  return OfMessage(R"("message": ")" + text + "\"" + more);
}

template <class S>
const S* StepOf(const Model& model) {
  for (const Step& step : model.steps) {
    if (const auto* found = std::get_if<S>(&step.op)) return found;
  }
  ADD_FAILURE() << "no such step";
  return nullptr;
}

std::vector<EdgeOp> OpsOf(const Model& model) {
  std::vector<EdgeOp> ops;
  const auto* step = StepOf<ExpressionStep>(model);
  for (size_t v = 0; step != nullptr && v < step->program->values.size(); ++v)
    ops.push_back(step->program->values[v].op);
  return ops;
}

// --- what other steps compute ---

TEST(MessagePassingTest, NeighboursAlonePropagate) {
  EXPECT_THAT(NamesOfSteps(*LoadOrFail(Message("x_j"))), ElementsAre("propagate"));
  const auto mean = LoadOrFail(Message("x_j", R"(, "aggr": "mean", "self_loops": "add_remaining")"));
  EXPECT_EQ(StepOf<PropagateStep>(*mean)->reduce, Reduce::kMean);
  EXPECT_EQ(StepOf<PropagateStep>(*mean)->adjacency.loops, SelfLoops::kAddRemaining);
  const auto gcn = LoadOrFail(Message("edge_weight * linear(x_j, W)", R"(, "normalize": true)"),
                              SafetensorsBuilder().AddRamp("c.W", {3, 2}));
  EXPECT_THAT(NamesOfSteps(*gcn), ElementsAre("linear", "propagate"));
  EXPECT_EQ(StepOf<PropagateStep>(*gcn)->adjacency.weighting, EdgeWeighting::kGcnOnes);
}

TEST(MessagePassingTest, EdgeConvIsTwoProductsPerNode) {
  const auto model = LoadOrFail(Message("linear(relu(linear(cat(x_i, x_j - x_i), nn.0)), nn.2)", R"(, "aggr": "max")"),
                                SafetensorsBuilder()
                                    .Add("c.nn.0.weight", {1, 4}, {1, 2, 30, 40})
                                    .AddRamp("c.nn.0.bias", {1})
                                    .AddRamp("c.nn.2.weight", {3, 1}));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "linear", "edge_message"));
  const auto& source = std::get<LinearStep>(model->steps[0].op);
  const auto& target = std::get<LinearStep>(model->steps[1].op);
  EXPECT_THAT(source.weight->values, ElementsAre(30, 40));
  EXPECT_NE(source.bias, nullptr);
  EXPECT_THAT(target.weight->values, ElementsAre(1 - 30, 2 - 40));
  EXPECT_EQ(target.bias, nullptr);
  const auto* message = StepOf<EdgeMessageStep>(*model);
  EXPECT_EQ(message->activation.kind, ActivationKind::kRelu);
  EXPECT_EQ(message->nn.size(), 1u);
  EXPECT_EQ(message->reduce, Reduce::kMax);
}

TEST(MessagePassingTest, ASumOfProductsIsTheProductOfASum) {
  const auto model = LoadOrFail(Message("linear(relu(linear(cat(x_i, x_j), a)), b, c)"),
                                SafetensorsBuilder().AddRamp("c.a", {3, 4}).AddRamp("c.b", {5, 3}).AddRamp("c.c", {5}));
  EXPECT_THAT(NamesOfSteps(*model),
              ElementsAre("linear", "linear", "edge_message", "linear", "expression", "propagate", "linear", "add"));
  EXPECT_TRUE(StepOf<EdgeMessageStep>(*model)->nn.empty());
  // The bias counts once per in-edge; of a mean, once where there is one.
  EXPECT_EQ(StepOf<PropagateStep>(*model)->reduce, Reduce::kSum);
  const auto mean = LoadOrFail(Message("linear(relu(x_i + x_j), b, c)", R"(, "aggr": "mean")"),
                               SafetensorsBuilder().AddRamp("c.b", {5, 2}).AddRamp("c.c", {5}));
  EXPECT_EQ(StepOf<PropagateStep>(*mean)->reduce, Reduce::kMax);
}

TEST(MessagePassingTest, GineReadsFeaturesInItsMessage) {
  const auto model = LoadOrFail(Message("relu(x_j + linear(edge_attr, lin))", R"(, "edge_dim": 3)"),
                                SafetensorsBuilder().AddRamp("c.lin.weight", {2, 3}).AddRamp("c.lin.bias", {2}));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("edge_message"));
  EXPECT_EQ(model->edge_feature_width, 3);
  EXPECT_NE(StepOf<EdgeMessageStep>(*model)->edge_bias, nullptr);
}

TEST(MessagePassingTest, Gatv2IsAttention) {
  const auto model =
      LoadOrFail(OfMessage(R"js("message": ["u = linear(x_j, l);", "u"], "aggr": "softmax", "self_loops": "replace",
                   "score": "dot(leaky_relu(u + linear(x_i, r), 0.2), att, 2)")js"),
                 SafetensorsBuilder().AddRamp("c.l", {6, 2}).AddRamp("c.r", {6, 2}).AddRamp("c.att", {1, 2, 3}));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "linear", "attention"));
  const auto* attention = StepOf<AttentionStep>(*model);
  EXPECT_EQ(attention->kind, AttentionKind::kGatV2);
  EXPECT_EQ(attention->heads, 2);
  EXPECT_EQ(attention->head_width, 3);
  EXPECT_FLOAT_EQ(static_cast<float>(attention->negative_slope), 0.2f);
}

// --- expressions ---

TEST(MessagePassingTest, WhatReadsOneEndIsComputedPerNode) {
  const auto model = LoadOrFail(Message("exp(x_j) * sigmoid(x_i) + 1"));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("activation", "activation", "expression"));
  EXPECT_THAT(OpsOf(*model),
              ElementsAre(EdgeOp::kSource, EdgeOp::kTarget, EdgeOp::kMultiply, EdgeOp::kNumber, EdgeOp::kAdd));
  // The same value at both ends is one.
  const auto both = LoadOrFail(Message("linear(x_j, W) * linear(x_i, W)"), SafetensorsBuilder().AddRamp("c.W", {3, 2}));
  EXPECT_THAT(NamesOfSteps(*both), ElementsAre("linear", "expression"));
  EXPECT_EQ(both->steps[1].inputs, (std::vector<ValueId>{1, 1}));
}

// A term that stands a hundred times costs what one does.
TEST(MessagePassingTest, TermsThatRepeatAreOne) {
  std::string sum = "x_i";
  for (int i = 0; i < 100; ++i) sum += " + x_j";
  const auto model = LoadOrFail(Message("square(linear(" + sum + ", W))"), SafetensorsBuilder().AddRamp("c.W", {3, 2}));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "linear", "edge_message"));
  const Weight* weights[] = {std::get<LinearStep>(model->steps[0].op).weight.get(),
                             std::get<LinearStep>(model->steps[1].op).weight.get()};
  if (weights[0]->name == "c.W") std::swap(weights[0], weights[1]);
  EXPECT_EQ(weights[0]->name, "columns of c.W 0*100");
  EXPECT_EQ(weights[1]->name, "c.W");
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(weights[0]->values[i], 100 * weights[1]->values[i]);
}

TEST(MessagePassingTest, OnlyTheEdgesShareOfAProductIsOneOfEdges) {
  const auto model =
      LoadOrFail(Message("square(linear(cat(x_i, x_j * x_i, edge_attr, 3 * x_j), W))", R"(, "edge_dim": 3)"),
                 SafetensorsBuilder().AddRamp("c.W", {4, 9}));
  EXPECT_THAT(NamesOfSteps(*model), ElementsAre("linear", "linear", "expression"));
  const auto* step = StepOf<ExpressionStep>(*model);
  ASSERT_EQ(step->parameters.size(), 1u);
  EXPECT_THAT(step->parameters[0]->shape, ElementsAre(4, 5));  // of x_j * x_i and edge_attr
  const auto& of_source = std::get<LinearStep>(model->steps[0].op).weight->values;
  EXPECT_FLOAT_EQ(of_source[0], 3 * step->parameters[0]->values[0] + 3 * 5 * 0.125f);
}

TEST(MessagePassingTest, ReductionsStandSideBySide) {
  const auto model =
      LoadOrFail(Message("x_j", R"(, "aggr": ["mean", "std", "softmax"], "update": "aggr[2:4] + x * degree")"));
  EXPECT_EQ(StepOf<ExpressionStep>(*model)->program->results.size(), 3u);
  EXPECT_EQ(model->class_count, 2);
}

TEST(MessagePassingTest, EqualValuesAreOneAndNumbersAreFolded) {
  const auto model = LoadOrFail(Message("a = x_i * x_j; b = x_i * x_j; a + b * (2 - 1 / 4)", R"(, "aggr": "var")"));
  EXPECT_THAT(OpsOf(*model), ElementsAre(EdgeOp::kTarget, EdgeOp::kSource, EdgeOp::kMultiply, EdgeOp::kNumber,
                                         EdgeOp::kMultiply, EdgeOp::kAdd));
  EXPECT_THAT(StepOf<ExpressionStep>(*model)->program->values[3].number, FloatEq(1.75f));
}

TEST(MessagePassingTest, ManyMatricesOfNodesAreJoined) {
  std::string text = "x_i";
  for (int k = 1; k <= 10; ++k) text += " * exp(" + std::to_string(k) + " * x_j)";
  // A product from the left meets x_i first, so each factor is a matrix of its own.
  const auto model = LoadOrFail(Message(text));
  EXPECT_EQ(StepOf<ExpressionStep>(*model)->program->sources, 1);
  EXPECT_NE(StepOf<ConcatStep>(*model), nullptr);
}

// --- what is refused ---

void ExpectRefusedAt(const std::string& text, const std::string& place, const std::string& why,
                     const std::string& more = "", const SafetensorsBuilder& weights = {}) {
  ExpectRefused(Message(text, more), weights.Build(), "BAD_ARCHITECTURE", "layers[0].args.message", place + ": " + why);
}

TEST(MessagePassingTest, RefusesFormsWithTheirPlace) {
  ExpectRefusedAt("x_j +", "line 1, column 6", "expected a value");
  ExpectRefusedAt("x_j x_i", "line 1, column 5", "found 'x_i', but the expression is complete");
  ExpectRefusedAt("(x_j", "line 1, column 5", "expected ')' to close a parenthesis, found the end of the text");
  ExpectRefusedAt("a = x_j;", "line 1, column 9", "the text ends after its definitions");
  ExpectRefusedAt("a = x_j b", "line 1, column 9", "expected ';'");
  ExpectRefusedAt("a = x_j;\\n a = x_i; a", "line 2, column 2", "the name 'a' has a value already");
  ExpectRefusedAt("x_j[1.5:2]", "line 1, column 5", "columns are whole numbers");
  ExpectRefusedAt("x_j ? x_i", "line 1, column 5", "found '?'");
  // Characters are told by their number, and count as one column.
  ExpectRefusedAt("x_j \\u0000 x_i", "line 1, column 5", "found '\\x00'");
  ExpectRefusedAt("x_j * \xc3\xa9", "line 1, column 7",
                  "expected a value (a name, a number, a function or a parenthesis), found '\\u00e9'");
  ExpectRefusedAt("x_j \xe2\x88\x92 x_i", "line 1, column 5", "found '\\u2212'");
  ExpectRefusedAt("# \xc3\xa9\xc3\xa9\\nx_j \xf0\x9f\x98\x80", "line 2, column 5", "found '\\U0001f600'");
  ExpectRefusedAt("x_j + (\xc3\xa9", "line 1, column 8",
                  "expected a value (a name, a number, a function or a parenthesis), found '\\u00e9'");
  ExpectRefusedAt("1.2.3 * x_j", "line 1, column 1", "'1.2.3' is not a number");
  ExpectRefusedAt("relu = x_j; relu", "line 1, column 1", "'relu' is a function");
  ExpectRefused(OfMessage(R"("message": 5)"), "BAD_ARCHITECTURE", "layers[0].args.message", "a list of its lines");
}

TEST(MessagePassingTest, RefusesNamesWithTheirPlace) {
  ExpectRefusedAt(
      "x_j * y", "line 1, column 7",
      "unknown name 'y'; it is neither one of degree_i, degree_j, out_degree_i, out_degree_j, x_i, x_j nor");
  ExpectRefusedAt("x", "line 1, column 1",
                  "unknown name 'x'; an edge has two ends: write x_j for its source's, x_i for its target's");
  ExpectRefusedAt("x_j * degree", "line 1, column 7", "unknown name 'degree'; an edge has two ends: write degree_j");
  ExpectRefusedAt("x_j + aggr", "line 1, column 7", "unknown name 'aggr'; the reduced messages are known in update");
  ExpectRefused(Message("x_j", R"(, "update": "aggr + x_i")"), "BAD_ARCHITECTURE", "layers[0].args.update",
                "an update is of one node: write x");
  ExpectRefusedAt("fourier(x_j)", "line 1, column 1", "unknown function 'fourier'; there are relu");
  ExpectRefusedAt("x_j * edge_attr", "line 1, column 7", "edge_attr has no width; set the argument edge_dim");
  ExpectRefusedAt("x_j * edge_weight", "line 1, column 7", "edges have no weights here");
  ExpectRefused(Message("x_j * edge_attr", R"(, "edge_dim": 2, "update": "aggr * edge_attr")"), "BAD_ARCHITECTURE",
                "layers[0].args.update",
                "unknown name 'edge_attr'; an update is of one node, which has none: read edge_attr in message");
  ExpectRefused(Message("x_j", R"(, "update": "aggr * edge_weight")"), "BAD_ARCHITECTURE", "layers[0].args.update",
                "unknown name 'edge_weight'; an update is of one node, which has none: read edge_weight in message");
  // Before what nothing reads.
  ExpectRefused(Message("x_j", R"(, "edge_dim": 3, "update": "agr + x")"), "BAD_ARCHITECTURE", "layers[0].args.update",
                "unknown name 'agr'; did you mean aggr?");
  ExpectRefused(Message("x_j * edge_atr", R"(, "edge_dim": 3)"), "BAD_ARCHITECTURE", "layers[0].args.message",
                "unknown name 'edge_atr'; did you mean edge_attr?");
  ExpectRefusedAt("relu", "line 1, column 1", "'relu' is a function; write its arguments");
  // Names are not cut at a character beyond ASCII.
  ExpectRefusedAt(
      "gr\xc3\xb6\xc3\x9f"
      "e_j * x_j",
      "line 1, column 1", "unknown name 'gr\\u00f6\\u00dfe_j'; names are of ASCII letters, digits, _ and .");
  ExpectRefusedAt("sum\xc3\xa9(x_j)", "line 1, column 1", "unknown name 'sum\\u00e9';");
  ExpectRefusedAt("linear(x_j, lin\xc3\xa9)", "line 1, column 13", "unknown name 'lin\\u00e9';");
  ExpectRefusedAt("batch_norm(x_j, bn\xc3\xa9)", "line 1, column 17", "unknown name 'bn\\u00e9';");
  // Cycles.
  ExpectRefusedAt("a = b * x_j; b = a; b", "line 1, column 5", "'b' is used before it is defined");
  ExpectRefusedAt("a = a + x_j; a", "line 1, column 5", "'a' is used before it is defined");
}

TEST(MessagePassingTest, SaysWhatToWriteForOperatorsOfPython) {
  ExpectRefusedAt("x_j ** 2", "line 1, column 5", "** is no operator; write square(a) for a ** 2");
  ExpectRefusedAt("x_j ^ 2", "line 1, column 5",
                  "found '^', but the expression is complete here; write square(a) for a ** 2");
  ExpectRefusedAt("x_j @ W", "line 1, column 5", "found '@', but the expression is complete here; write linear(a, W)");
  ExpectRefusedAt("x_j // 2", "line 1, column 5", "// is no operator; there is no division of whole numbers");
  ExpectRefusedAt("x_j > 0", "line 1, column 5", "found '>', but the expression is complete here; there are no compar");
  ExpectRefusedAt("x_j if degree_j else x_i", "line 1, column 5",
                  "found 'if', but the expression is complete here; the");
  ExpectRefusedAt("return x_j", "line 1, column 1", "unknown name 'return'; the text ends with its value");
}

TEST(MessagePassingTest, SaysWhatToWriteForFunctionsOfPyTorch) {
  const auto refused = [](const std::string& text, const std::string& why) {
    ExpectRefusedAt(text, "line 1, column 1", why);
  };
  refused("pow(x_j, 2)", "unknown function 'pow'; write square(a) for pow(a, 2)");
  refused("x_j.pow(2)", "unknown function 'x_j.pow'; write square(a) for pow(a, 2)");
  refused("softmax(x_j, index)",
          "unknown function 'softmax'; a softmax over the in-edges of a node is \"aggr\": \"soft");
  refused("torch.relu(x_j)",
          "unknown function 'torch.relu'; functions have no module and no object before them: write "
          "relu(a)");
  refused("F.elu(x_j)", "unknown function 'F.elu'; functions have no module and no object before them: write elu(a)");
  refused("x_j.relu()",
          "unknown function 'x_j.relu'; functions have no module and no object before them: write "
          "relu(x_j)");
  refused("x_j.sum(-1)",
          "unknown function 'x_j.sum'; functions have no module and no object before them: write "
          "sum(x_j)");
  refused("torch.cat([x_i, x_j], dim=-1)",
          "unknown function 'torch.cat'; functions have no module and no object before "
          "them: write cat(a, b, ...)");
  refused("torch.norm(x_j, dim=-1)", "unknown function 'torch.norm'; write sqrt(sum(square(a)))");
  refused("norm.view(-1, 1) * x_j", "unknown function 'norm.view'; a value is a row of columns");
  refused("F.dropout(x_j)", "unknown function 'F.dropout'; nothing is dropped at inference");
  refused("sin(x_j)", "unknown function 'sin'; there is no such function; send what it computes");
  refused("sigmoit(x_j)", "unknown function 'sigmoit'; did you mean sigmoid?");
  refused("nn.LeakyReLU(x_j)", "unknown function 'nn.LeakyReLU'; did you mean leaky_relu?");
  ExpectRefusedAt("(x_j * x_i).sum(-1)", "line 1, column 12",
                  "found '.', but the expression is complete here; functions have no module and no object before them: "
                  "write sum(a)");
  ExpectRefusedAt(
      "cat([x_i, x_j])", "line 1, column 5",
      "expected a value (a name, a number, a function or a parenthesis), found '['; arguments stand without "
      "brackets");
  ExpectRefusedAt("sum(x_j, dim=-1)", "line 1, column 10", "unknown name 'dim'; functions go over columns, the only ");
  ExpectRefusedAt("x_j == x_i", "line 1, column 5",
                  "found '=', but the expression is complete here; there are no compar");
  ExpectRefusedAt("leaky_relu(x_j, negative_slope=0.2)", "line 1, column 17",
                  "unknown name 'negative_slope'; arguments have no names: write the value alone");
  ExpectRefusedAt("sum(x_j, -1)", "line 1, column 1",
                  "sum takes a whole number as its last argument, and no dimension");
  ExpectRefusedAt("relu(x_j.T)", "line 1, column 6", "unknown name 'x_j.T'; a value is a row; write linear(a, W)");
}

TEST(MessagePassingTest, SaysHowColumnsAreTaken) {
  ExpectRefusedAt(
      "x_i[:, 0:1]", "line 1, column 6",
      "columns are whole numbers, as in x[0:3]; found ','; a value is the row of one edge or node, of which "
      "x[0:3] takes columns; write x[0:3] for x[:, 0:3] and x[3:4] for x[:, 3]");
  ExpectRefusedAt("x_i[..., 0:1]", "line 1, column 5",
                  "columns are whole numbers, as in x[0:3]; found '.'; a value is");
  ExpectRefusedAt("x_i[0]", "line 1, column 6",
                  "expected ':' between the first column and the end, as in x[0:3], found ']'; one column is x[3:4]");
  ExpectRefusedAt("x_i[:-1]", "line 1, column 6",
                  "columns are whole numbers, as in x[0:3]; found '-'; columns are cou");
  ExpectRefusedAt("x_i[0:2:2]", "line 1, column 8",
                  "expected ']' after columns, found ':'; columns are taken one after");
}

TEST(MessagePassingTest, SaysHowModulesOfAClassAreWritten) {
  const auto weights = SafetensorsBuilder()
                           .AddRamp("c.lin.weight", {3, 2})
                           .AddRamp("c.eps", {1})
                           .AddRamp("c.bn.running_mean", {2})
                           .AddRamp("c.bn.weight", {2})
                           .AddRamp("c.nn.0.weight", {3, 2})
                           .AddRamp("c.nn.2.weight", {3, 3});
  const auto refused = [&](const std::string& text, const std::string& place, const std::string& why) {
    ExpectRefusedAt(text, place, why, "", weights);
  };
  refused("self.lin(x_j)", "line 1, column 1", "unknown function 'self.lin'; write linear(a, lin)");
  refused("lin(x_j)", "line 1, column 1", "unknown function 'lin'; write linear(a, lin)");
  refused("self.bn(x_j)", "line 1, column 1", "unknown function 'self.bn'; write batch_norm(a, bn)");
  refused(
      "self.nn(x_j)", "line 1, column 1",
      "unknown function 'self.nn'; write each module of nn by itself, as in linear(relu(linear(a, nn.0)), nn.2); with "
      "weights it has nn.0, nn.2");
  refused("self.lin2(x_j)", "line 1, column 1",
          "unknown function 'self.lin2'; write what the module computes: linear(a, lin2) for a Linear with the tensor "
          "'c.lin2.weight', which the weights file does not have");
  refused("self.relu(x_j)", "line 1, column 1", "unknown function 'self.relu'; write relu(a)");
  refused("(1 + self.eps) * x_j", "line 1, column 6",
          "unknown name 'self.eps'; names are those of the state_dict, without self: write eps");
  refused("x_j / self.heads", "line 1, column 7",
          "unknown name 'self.heads'; names are those of the state_dict, without "
          "self, and numbers stand as numbers");
  refused("linear(x_j, self.lin)", "line 1, column 13",
          "unknown name 'self.lin'; names are those of the state_dict, wit");
  refused("linear(x_j, lim)", "line 1, column 13",
          "unknown name 'lim'; did you mean lin? It is no variable, and the weights file has no 'c.lim'");
  refused("linear(x_j, product)", "line 1, column 13",
          "unknown name 'product'; the weights file has neither 'c.product' nor 'c.product.weight'");
  refused("batch_norm(x_j, normal)", "line 1, column 17",
          "batch_norm needs the tensor 'c.normal.running_mean' [2], which the weights file does not have; it has those "
          "of 'bn'");
  refused("batch_norm(x_j, bn)", "line 1, column 17",
          "batch_norm needs the tensor 'c.bn.running_var' [2], which the weights file does not have");
  refused("linear(x_j, nn.0.wieght)", "line 1, column 13", "unknown name 'nn.0.wieght'; did you mean nn.0.weight?");
  refused("epss * x_j", "line 1, column 1", "unknown name 'epss'; did you mean eps?");
  refused("xj", "line 1, column 1", "unknown name 'xj'; did you mean x_j?");
}

TEST(MessagePassingTest, RefusesShapesWithTheirPlace) {
  ExpectRefusedAt("cat(x_i, x_j) + x_j", "line 1, column 15", "the left side has 4 columns, the right side 2");
  ExpectRefusedAt("x_j[1:3]", "line 1, column 4", "columns [1:3] are taken of a value of 2 columns");
  ExpectRefusedAt("x_j[1:1]", "line 1, column 4", "columns [1:1]");
  ExpectRefusedAt("linear(x_j, W)", "line 1, column 1", "linear multiplies a value of 2 columns by 'c.W' [3, 4]", "",
                  SafetensorsBuilder().AddRamp("c.W", {3, 4}));
  const std::string empty = " [0, 2]; a weight has the shape [out, 2], with out at least 1";
  ExpectRefusedAt("linear(x_j, W)", "line 1, column 1", "linear multiplies a value of 2 columns by 'c.W'" + empty, "",
                  SafetensorsBuilder().AddRamp("c.W", {0, 2}));
  ExpectRefusedAt("relu(linear(x_j * x_i, lin))", "line 1, column 6",
                  "linear multiplies a value of 2 columns by 'c.lin.weight'" + empty, "",
                  SafetensorsBuilder().AddRamp("c.lin.weight", {0, 2}).AddRamp("c.lin.bias", {0}));
  ExpectRefusedAt("linear(x_j, lin, lin.bias)", "line 1, column 16",
                  "'lin' is a module, and linear(x, lin) adds its bias; remove the last argument", "",
                  SafetensorsBuilder().AddRamp("c.lin.weight", {3, 2}).AddRamp("c.lin.bias", {3}));
  ExpectRefusedAt("linear(x_j, W, b)", "line 1, column 1", "linear adds the bias 'c.b' [2] to 3 columns", "",
                  SafetensorsBuilder().AddRamp("c.W", {3, 2}).AddRamp("c.b", {2}));
  ExpectRefusedAt("dot(x_j, x_i, 3)", "line 1, column 1", "2 columns cannot be summed in 3 equal parts");
  ExpectRefusedAt("sum(x_j, 0)", "line 1, column 1", "sum takes a whole number as its last argument, 1 to 65536");
  ExpectRefusedAt("repeat(x_j, 1000000)", "line 1, column 1", "repeat takes a whole number from 1 to 65536");
  ExpectRefusedAt("repeat(x_j, 1e30)", "line 1, column 1", "repeat takes a whole number as its last argument");
  ExpectRefusedAt("repeat(repeat(x_j, 65536), 2)", "line 1, column 8", "it has 131072 columns");
  ExpectRefusedAt("relu(x_j, 3)", "line 1, column 1", "relu takes one value");
  // As torch does.
  ExpectRefusedAt("clamp(x_j)", "line 1, column 1", "clamp takes a value and 1 or 2 numbers");
  ExpectRefusedAt("threshold(x_j, 0.1)", "line 1, column 1", "threshold takes a value and 2 numbers");
  ExpectRefusedAt("hardtanh(x_j, 1)", "line 1, column 1",
                  "hardtanh takes a lowest number below the highest; these are 1 and 1");
  ExpectRefusedAt("max(x_j)", "line 1, column 1", "max takes two or more values; reductions over edges");
}

TEST(MessagePassingTest, RefusesRowsThatAreTooWide) {
  ExpectRefused(Message("edge_attr", R"(, "edge_dim": 65537)"), "BAD_ARCHITECTURE", "layers[0].args.message",
                "layers[0].args.message of layer 'c' (MessagePassing) cannot have 'edge_attr': it has 65537 columns; a "
                "value may have at most 65536");
  ExpectRefused(
      R"({"format": "vicinal.model/1", "in_channels": 70000, "layers": [{"name": "c", "type": "MessagePassing",
                "args": {"message": "x_j[0:2]"}}]})",
      "BAD_ARCHITECTURE", "layers[0].args.message", "cannot have 'x_j': it has 70000 columns");
}

TEST(MessagePassingTest, RefusesNumbersThatAreNotFinite) {
  ExpectRefusedAt("x_j * 1e39", "line 1, column 7", "the number is not finite");
  ExpectRefusedAt("x_j * (0 / 0)", "line 1, column 10", "the number is not finite");
  ExpectRefusedAt("x_j * (1 / 0)", "line 1, column 10", "the number is not finite");
  ExpectRefusedAt("nan * x_j", "line 1, column 1", "unknown name 'nan'");
}

TEST(MessagePassingTest, RefusesWhatIsTooLarge) {
  const std::string deep(100'000, '(');
  ExpectRefused(Message(deep), "BAD_ARCHITECTURE", "layers[0].args.message", "may have at most 65536");
  const auto nested = [](size_t levels) { return std::string(levels, '(') + "x_j" + std::string(levels, ')'); };
  EXPECT_NE(LoadOrFail(Message(nested(64))), nullptr);
  ExpectRefusedAt(nested(65), "line 1, column 65", "more than 64 levels");
  EXPECT_NE(LoadOrFail(Message("relu(" + nested(63) + ")")), nullptr);
  ExpectRefusedAt("relu(" + nested(64) + ")", "line 1, column 69", "more than 64 levels");
  // Levels that are closed no longer count.
  std::string closed = "x_j";
  for (int k = 0; k < 100; ++k) closed += " + relu((x_i))";
  EXPECT_NE(LoadOrFail(Message(closed)), nullptr);
  std::string many = "x_j";
  for (int k = 0; k < 1100; ++k) many += "*x_i";
  ExpectRefused(Message(many), "BAD_ARCHITECTURE", "layers[0].args.message", "the layer has more than 1024 operations");
  // A million operations are refused by their length, before any is read.
  std::string million = "x_j";
  for (int k = 0; k < 1'000'000; ++k) million += "+x_i";
  ExpectRefused(Message(million), "BAD_ARCHITECTURE", "layers[0].args.message", "may have at most 65536");
  ExpectRefused(
      Message("a = repeat(x_j, 30000) * repeat(x_i, 30000); a + a * a"), "BAD_ARCHITECTURE", "layers[0].args.message",
      "layers[0].args.message of layer 'c' (MessagePassing): it computes 300004 numbers for each edge; at most 65536");
  // Values that move from sources to targets, and those that an update begins with, count too.
  std::string moved = "x_j";
  for (int k = 2; k < 302; ++k) moved += "+x_j*" + std::to_string(k);
  ExpectRefused(Message(moved), "BAD_ARCHITECTURE", "layers[0].args.message",
                "layers[0].args.message of layer 'c' (MessagePassing): the layer has more than 1024 operations");
  std::string full = "x_j";
  for (int k = 0; k < 1018; ++k) full += "*x_i";
  ExpectRefused(Message(full, R"(, "update": "aggr")"), "BAD_ARCHITECTURE", "layers[0].args.update",
                "layers[0].args.update of layer 'c' (MessagePassing) cannot have 'aggr': the layer has more than 1024");
  // Sums of minus signs are no depth.
  EXPECT_NE(LoadOrFail(Message(std::string(10'000, '-') + "x_j")), nullptr);
}

TEST(MessagePassingTest, RefusesArguments) {
  ExpectRefused(OfMessage(""), "BAD_ARCHITECTURE", "layers[0].args.message", "needs a message");
  ExpectRefused(Message("x_j", R"(, "aggr": "median")"), "UNSUPPORTED_ARGUMENT", "layers[0].args.aggr", "median");
  ExpectRefused(Message("x_j", R"(, "aggr": [])"), "BAD_ARCHITECTURE", "layers[0].args.aggr", "1 to 16");
  ExpectRefused(Message("x_j", R"(, "score": "x_i")"), "BAD_ARCHITECTURE", "layers[0].args.score", "no \"softmax\"");
  ExpectRefused(Message("cat(x_j, x_i)", R"js(, "aggr": "softmax", "score": "cat(x_i, x_j[0:1])")js"),
                "BAD_ARCHITECTURE", "layers[0].args.score", "has 3 columns, the message 4");
  ExpectRefused(Message("x_j", R"(, "edge_dim": 3)"), "BAD_ARCHITECTURE", "layers[0].args.edge_dim",
                "no expression reads");
  ExpectRefused(Message("x_j", R"(, "normalize": true)"), "BAD_ARCHITECTURE", "layers[0]", "no expression reads");
  ExpectRefused(Message("x_j", R"(, "update": "x")"), "BAD_ARCHITECTURE", "layers[0].args.update",
                "does not read aggr");
  ExpectRefused(Message("x_j * edge_attr", R"(, "edge_dim": 2, "self_loops": "add_remaining")"), "UNSUPPORTED_ARGUMENT",
                "layers[0].args.self_loops", "\"replace\"");
  ExpectRefused(Message("x_j", R"(, "flow": "target_to_source")"), "UNSUPPORTED_ARGUMENT", "layers[0].args.flow",
                "swap");
}

}  // namespace
}  // namespace vicinal

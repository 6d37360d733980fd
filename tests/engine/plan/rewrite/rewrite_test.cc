// SPDX-License-Identifier: Apache-2.0
// Each rewrite on models made by hand: what nodes come out, in which order, with which epilogues. That results stay
// equal is plan_test.cc's.
#include "engine/plan/rewrite/rewrite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/plan/model_maker.h"

namespace vicinal::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using vicinal::testing::ModelMaker;

Program Rewrite(ModelMaker& maker, ValueId output, bool sparse = false) {
  return RewriteModel(*maker.Done(output), output, sparse, {100, 500, 300});
}

std::vector<NodeKind> Kinds(const Program& program) {
  std::vector<NodeKind> kinds;
  for (const Node& node : program.nodes) kinds.push_back(node.kind);
  return kinds;
}

// W in double.
std::vector<double> ValuesOf(const ProductWeight& weight) {
  std::vector<double> values(weight.rows * weight.cols);
  for (int64_t r = 0; r < weight.rows; ++r) weight.CopyRow(r, values.data() + r * weight.cols);
  return values;
}

TEST(Rewrite, GcnIsFourLaunches) {
  ModelMaker maker(30);
  const ValueId hidden =
      maker.Activate(maker.Bias(maker.Propagate(maker.Linear(0, 8, false), Reduce::kSum)), ActivationKind::kRelu);
  const Program program =
      Rewrite(maker, maker.Bias(maker.Propagate(maker.Linear(hidden, 4, false), Reduce::kSum)), true);
  EXPECT_THAT(Kinds(program),
              ElementsAre(NodeKind::kLinear, NodeKind::kPropagate, NodeKind::kLinear, NodeKind::kPropagate));
  EXPECT_NE(program.nodes[1].epilogue.bias, nullptr);
  EXPECT_EQ(program.nodes[1].epilogue.activation.kind, ActivationKind::kRelu);
  EXPECT_EQ(LayerNames(program, program.nodes[1]), "l1 + l2 + l3");
}

TEST(Rewrite, ARowThatTookInASumGoesOnIntoTheSumsOtherSide) {
  ModelMaker maker(6);
  const ValueId a = maker.Bias(maker.Normalize(0));  // whose producer has no epilogue
  const ValueId b = maker.Bias(0);
  const Program program = Rewrite(maker, maker.Mix(a, 0.5, b, 1.5));
  ASSERT_THAT(Kinds(program), ElementsAre(NodeKind::kNormalize, NodeKind::kRow));
  EXPECT_NE(program.nodes[1].epilogue.bias, nullptr);
  EXPECT_GE(program.nodes[1].epilogue.residual, 0);
}

TEST(Rewrite, ProductsMovePastSeveralAggregations) {
  ModelMaker maker(9);
  ValueId x = 0;
  for (int i = 0; i < 3; ++i) x = maker.Propagate(x, Reduce::kMean);
  for (const int64_t width : {7, 5}) x = maker.Linear(x, width, false);
  const Program program = Rewrite(maker, x);
  ASSERT_THAT(Kinds(program), ElementsAre(NodeKind::kLinear, NodeKind::kLinear, NodeKind::kPropagate,
                                          NodeKind::kPropagate, NodeKind::kPropagate));
  for (const Node& node : program.nodes) {
    EXPECT_EQ(program.values[node.output].width, &node == &program.nodes[0] ? 7 : 5);
  }
  EXPECT_EQ(program.nodes.back().output, program.output);
  EXPECT_EQ(program.decisions.size(), 6u);
}

TEST(Rewrite, ManyDecisionsAndManyNamesAreCounted) {
  ModelMaker maker(3);
  ValueId x = maker.Linear(0, 3, false);
  constexpr int kNorms = 1200;
  for (int i = 0; i < kNorms; ++i) x = maker.BatchNorm(x);
  const Program program = Rewrite(maker, x);
  ASSERT_THAT(Kinds(program), ElementsAre(NodeKind::kLinear));
  EXPECT_EQ(program.decisions.size(), Program::kMaxDecisions);
  EXPECT_EQ(program.untold, kNorms - static_cast<int64_t>(Program::kMaxDecisions));
  EXPECT_THAT(LayerNames(program, program.nodes[0]), HasSubstr("l15 + 1185 more"));
}

TEST(Rewrite, WideProductsComeBeforeTheAggregation) {
  ModelMaker maker(30);
  const Program program = Rewrite(maker, maker.Linear(maker.Propagate(0, Reduce::kMean, {}, 1.5), 8, true));
  ASSERT_THAT(Kinds(program), ElementsAre(NodeKind::kLinear, NodeKind::kPropagate));
  EXPECT_EQ(program.nodes[0].epilogue.bias, nullptr) << "a bias must not be aggregated";
  EXPECT_NE(program.nodes[1].epilogue.bias, nullptr);
  EXPECT_EQ(program.nodes[1].self_scale, 1.5);
  EXPECT_EQ(program.values[program.nodes[1].inputs[0]].width, 8);
  ASSERT_EQ(program.decisions.size(), 1u);
  EXPECT_THAT(program.decisions[0], HasSubstr("multiplies before it aggregates"));
}

TEST(Rewrite, NarrowInputsAreAggregatedFirst) {
  ModelMaker maker(4);
  const Program program = Rewrite(maker, maker.Propagate(maker.Linear(0, 32, false), Reduce::kSum));
  ASSERT_THAT(Kinds(program), ElementsAre(NodeKind::kPropagate, NodeKind::kLinear));
  EXPECT_EQ(program.values[program.nodes[0].output].width, 4);
}

TEST(Rewrite, ABiasHoldsAnAggregationWhereItIs) {
  ModelMaker maker(4);
  const Program program = Rewrite(maker, maker.Propagate(maker.Linear(0, 32, true), Reduce::kSum));
  EXPECT_THAT(Kinds(program), ElementsAre(NodeKind::kLinear, NodeKind::kPropagate));
}

TEST(Rewrite, MaximaStayWhereTheyAre) {
  ModelMaker maker(30);
  const ValueId output = maker.Linear(maker.Propagate(0, Reduce::kMax), 8, true);
  EXPECT_THAT(Kinds(Rewrite(maker, output)), ElementsAre(NodeKind::kPropagate, NodeKind::kLinear));
  const Program sparse = Rewrite(maker, output, true);
  ASSERT_THAT(Kinds(sparse), ElementsAre(NodeKind::kPropagateLinear));
  EXPECT_NE(sparse.nodes[0].epilogue.bias, nullptr);
}

TEST(Rewrite, MinimaStayToo) {
  ModelMaker maker(30);
  const ValueId output = maker.Linear(maker.Propagate(0, Reduce::kMin), 8, true);
  EXPECT_THAT(Kinds(Rewrite(maker, output)), ElementsAre(NodeKind::kPropagate, NodeKind::kLinear));
  EXPECT_THAT(Kinds(Rewrite(maker, output, true)),
              ElementsAre(NodeKind::kDensify, NodeKind::kPropagate, NodeKind::kLinear));
}

TEST(Rewrite, AProductMovesBeforeAllHopsThatItMakesNarrower) {
  ModelMaker maker(30);
  const ValueId hops = maker.Propagate(maker.Propagate(maker.Propagate(0, Reduce::kSum), Reduce::kSum), Reduce::kSum);
  const Program program = Rewrite(maker, maker.Linear(hops, 8, true));
  ASSERT_THAT(Kinds(program),
              ElementsAre(NodeKind::kLinear, NodeKind::kPropagate, NodeKind::kPropagate, NodeKind::kPropagate));
  EXPECT_EQ(program.values[program.nodes[1].inputs[0]].width, 8);
  EXPECT_EQ(program.nodes[0].epilogue.bias, nullptr);
  EXPECT_NE(program.nodes[3].epilogue.bias, nullptr);
}

TEST(Rewrite, AppnpIsOneLaunchPerHop) {
  ModelMaker maker(30);
  const ValueId start = maker.Linear(0, 8, true);
  ValueId value = start;
  for (int k = 0; k < 3; ++k) value = maker.Mix(maker.Propagate(value, Reduce::kSum), 0.75, start, 0.25);
  const Program program = Rewrite(maker, maker.Activate(value, ActivationKind::kRelu));
  ASSERT_THAT(Kinds(program),
              ElementsAre(NodeKind::kLinear, NodeKind::kPropagate, NodeKind::kPropagate, NodeKind::kPropagate));
  for (size_t k = 1; k <= 3; ++k) {
    EXPECT_EQ(program.nodes[k].epilogue.scale, 0.75);
    EXPECT_EQ(program.nodes[k].epilogue.residual, program.nodes[0].output);
    EXPECT_EQ(program.nodes[k].epilogue.residual_scale, 0.25);
  }
  EXPECT_EQ(program.nodes[3].epilogue.activation.kind, ActivationKind::kRelu);
}

TEST(Rewrite, ScalesGoIntoWeightsAndBiases) {
  ModelMaker maker(6);
  const ValueId product = maker.Linear(0, 5, true);
  const ValueId mixed = maker.Mix(product, 0.5, maker.Normalize(maker.Linear(0, 5, false)), 2.0);
  const Program scaled = Rewrite(maker, mixed), plain = Rewrite(maker, product);
  const auto with_bias = [](const Program& program) {
    for (const Node& node : program.nodes) {
      if (node.kind == NodeKind::kLinear && node.epilogue.bias != nullptr) return node;
    }
    return Node();
  };
  const Node a = with_bias(scaled), b = with_bias(plain);
  EXPECT_EQ(a.epilogue.scale, 1.0);
  EXPECT_EQ(a.epilogue.residual_scale, 2.0);
  EXPECT_EQ(ValuesOf(*a.weight)[7], 0.5 * ValuesOf(*b.weight)[7]);
  EXPECT_EQ(a.epilogue.bias->values[3], 0.5 * b.epilogue.bias->values[3]);
}

TEST(Rewrite, TransformersFourProductsAreOne) {
  ModelMaker maker(30);
  const ValueId key = maker.Linear(0, 12, true), query = maker.Linear(0, 12, true), value = maker.Linear(0, 12, true);
  const ValueId out = maker.AttentionDot(value, query, key, 3, true);
  const ValueId skip = maker.Linear(0, 12, true);
  const Program sum = Rewrite(maker, maker.Activate(maker.Sum(out, skip), ActivationKind::kElu));
  ASSERT_THAT(Kinds(sum), ElementsAre(NodeKind::kLinear, NodeKind::kAttention));
  EXPECT_EQ(sum.nodes[0].weight->rows, 4 * 12);
  EXPECT_EQ(PlaceOf(sum, sum.nodes[1].epilogue.residual).root, sum.nodes[0].output);
  EXPECT_EQ(sum.nodes[1].epilogue.activation.kind, ActivationKind::kElu);
  const Program gated = Rewrite(maker, maker.Activate(maker.Gate(out, skip), ActivationKind::kElu));
  EXPECT_THAT(Kinds(gated), ElementsAre(NodeKind::kLinear, NodeKind::kAttention, NodeKind::kGate, NodeKind::kRow));
}

TEST(Rewrite, TheFirstProductOfAMessageMlpIsOnePerNode) {
  ModelMaker maker(6);
  const ValueId output = maker.EdgeConv(0, Reduce::kMax, {8, 5}, {0, 3});
  const auto model = maker.Done(output);
  const auto& nn = std::get<EdgeConvStep>(model->steps[0].op).nn;
  const std::vector<float>& weight = std::get<LinearStep>(nn[0]).weight->values;  // [8, 12]
  const Program program = Rewrite(maker, maker.Activate(output, ActivationKind::kRelu));
  ASSERT_THAT(Kinds(program), ElementsAre(NodeKind::kLinear, NodeKind::kMessageReduce));
  const Node &product = program.nodes[0], &edges = program.nodes[1];
  ASSERT_EQ(product.weight->rows, 16);
  ASSERT_EQ(product.weight->cols, 6);
  const std::vector<double> products = ValuesOf(*product.weight);
  const int64_t u = PlaceOf(program, edges.inputs[0]).offset, v = PlaceOf(program, edges.inputs[1]).offset;
  for (int64_t h = 0; h < 8; ++h) {
    for (int64_t f = 0; f < 6; ++f) {
      const double wa = weight[h * 12 + f], wb = weight[h * 12 + 6 + f];
      EXPECT_EQ(products[(u + h) * 6 + f], wb);
      EXPECT_EQ(products[(v + h) * 6 + f], wa - wb);
    }
  }
  EXPECT_EQ(edges.message_activation.kind, ActivationKind::kLeakyRelu);
  ASSERT_EQ(edges.message_layers.size(), 1u);
  EXPECT_EQ(edges.message_layers[0].weight->rows, 5);
  EXPECT_EQ(edges.epilogue.activation.kind, ActivationKind::kRelu);
}

TEST(Rewrite, NormsOfAMessageMlpAreFolded) {
  ModelMaker maker(6);
  const auto layers = [&maker](const std::vector<int>& norms) {
    const ValueId output = maker.EdgeConv(0, Reduce::kMax, {8, 7}, norms);
    return Rewrite(maker, output).nodes.back().message_layers;
  };
  EXPECT_EQ(layers({1, 1}).size(), 1u) << "beside a product";
  EXPECT_EQ(layers({2, 0}).size(), 1u) << "between an activation and a product";
  const std::vector<MessageLayer> last = layers({2, 2});
  ASSERT_EQ(last.size(), 2u) << "after the last activation: on its own";
  EXPECT_EQ(last[1].weight->rows, 7);
  EXPECT_EQ(ValuesOf(*last[1].weight)[1], 0.0);
  EXPECT_NE(ValuesOf(*last[1].weight)[0], 0.0);
}

// A product, a BatchNorm whose variance makes it a factor, and what they are rewritten to.
std::vector<NodeKind> NormalisedProduct(float weight, float variance, bool aggregated) {
  ModelMaker maker(6);
  ValueId x = maker.Linear(0, 5, false);
  if (aggregated) x = maker.Propagate(x, Reduce::kSum);
  x = maker.BatchNorm(x);
  Model model = *maker.Done(x);
  LinearStep& linear = std::get<LinearStep>(model.steps.front().op);
  linear.weight = std::make_shared<const Weight>(Weight{"w", {5, 6}, std::vector<float>(30, weight)});
  BatchNormStep& norm = std::get<BatchNormStep>(model.steps.back().op);
  norm.mean = norm.weight = norm.bias = nullptr;
  norm.eps = 0;
  norm.mean = std::make_shared<const Weight>(Weight{"m", {5}, std::vector<float>(5, 0.0f)});
  norm.var = std::make_shared<const Weight>(Weight{"v", {5}, std::vector<float>(5, variance)});
  return Kinds(RewriteModel(model, x, false, {100, 500, 300}));
}

TEST(Rewrite, NothingIsFoldedThatLeavesFloatsNormalRange) {
  EXPECT_THAT(NormalisedProduct(1e-30f, 1e30f, false), ElementsAre(NodeKind::kLinear, NodeKind::kRow)) << "1e-45";
  EXPECT_THAT(NormalisedProduct(1e35f, 1e-12f, false), ElementsAre(NodeKind::kLinear, NodeKind::kRow)) << "1e41";
  EXPECT_THAT(NormalisedProduct(1e-30f, 1e30f, true),
              ElementsAre(NodeKind::kLinear, NodeKind::kPropagate, NodeKind::kRow));
  EXPECT_THAT(NormalisedProduct(1e-30f, 1e10f, false), ElementsAre(NodeKind::kLinear)) << "1e-35";
  EXPECT_THAT(NormalisedProduct(1e30f, 1e-10f, true), ElementsAre(NodeKind::kLinear, NodeKind::kPropagate)) << "1e35";
  EXPECT_THAT(NormalisedProduct(0.0f, 1e30f, false), ElementsAre(NodeKind::kLinear));
}

TEST(Rewrite, ASparseInputIsMultipliedFirstWhateverTheWidths) {
  ModelMaker maker(4);
  EXPECT_THAT(Kinds(Rewrite(maker, maker.Linear(maker.Propagate(0, Reduce::kSum), 32, true), true)),
              ElementsAre(NodeKind::kLinear, NodeKind::kPropagate));
}

TEST(Rewrite, ASparseInputIsMadeDenseOnceWhereItMustBe) {
  ModelMaker maker(6);
  const ValueId product = maker.Linear(0, 6, false);
  const ValueId aggregated = maker.Propagate(0, Reduce::kMax);
  const Program program = Rewrite(maker, maker.Sum(maker.Sum(product, aggregated), 0), true);
  int densified = 0;
  for (const Node& node : program.nodes) densified += node.kind == NodeKind::kDensify ? 1 : 0;
  EXPECT_EQ(densified, 1);
}

TEST(Rewrite, BatchNormIsFoldedIntoTheProduct) {
  ModelMaker maker(6);
  const ValueId output = maker.Activate(maker.BatchNorm(maker.Linear(0, 5, true)), ActivationKind::kRelu);
  EXPECT_THAT(Kinds(Rewrite(maker, output)), ElementsAre(NodeKind::kLinear));
  // Through an aggregation, too.
  const ValueId deep = maker.BatchNorm(maker.Bias(maker.Propagate(maker.Linear(output, 3, false), Reduce::kMean)));
  EXPECT_THAT(Kinds(Rewrite(maker, deep)), ElementsAre(NodeKind::kLinear, NodeKind::kLinear, NodeKind::kPropagate));
}

TEST(Rewrite, WhatIsReadTwiceIsNotFolded) {
  ModelMaker maker(6);
  const ValueId product = maker.Linear(0, 5, true);
  const ValueId active = maker.Activate(product, ActivationKind::kRelu);
  EXPECT_THAT(Kinds(Rewrite(maker, maker.Sum(active, product))),
              ElementsAre(NodeKind::kLinear, NodeKind::kRow, NodeKind::kRow));
  // Nor is a value that is asked for by name.
  EXPECT_THAT(Kinds(Rewrite(maker, product)), ElementsAre(NodeKind::kLinear));
}

TEST(Rewrite, SageJoinsItsTwoProducts) {
  ModelMaker maker(30);
  const ValueId left = maker.Linear(maker.Propagate(0, Reduce::kMean), 8, true);
  const ValueId output = maker.Activate(maker.Sum(left, maker.Linear(0, 8, false)), ActivationKind::kRelu);
  const Program program = Rewrite(maker, output);
  ASSERT_THAT(Kinds(program), ElementsAre(NodeKind::kLinear, NodeKind::kPropagate));
  EXPECT_EQ(program.nodes[0].weight->rows, 16);
  EXPECT_EQ(PlaceOf(program, program.nodes[1].inputs[0]).root, program.nodes[0].output);
  EXPECT_EQ(PlaceOf(program, program.nodes[1].epilogue.residual).root, program.nodes[0].output);
  EXPECT_NE(PlaceOf(program, program.nodes[1].inputs[0]).offset,
            PlaceOf(program, program.nodes[1].epilogue.residual).offset);
}

TEST(Rewrite, AttentionScoresAreRowsOfTheProduct) {
  ModelMaker maker(30);
  const Program program = Rewrite(maker, maker.Attention(maker.Linear(0, 12, false), 3, true));
  ASSERT_THAT(Kinds(program), ElementsAre(NodeKind::kLinear, NodeKind::kAttention));
  EXPECT_EQ(program.nodes[0].weight->rows, 12 + 2 * 3);
}

TEST(Rewrite, ConcatsAreWrittenInPlace) {
  ModelMaker maker(6);
  const ValueId a = maker.Linear(0, 5, true);
  const ValueId b = maker.Activate(maker.Linear(a, 5, true), ActivationKind::kRelu);
  const Program program = Rewrite(maker, maker.Concat({a, b, a}));
  EXPECT_THAT(Kinds(program), ElementsAre(NodeKind::kLinear, NodeKind::kLinear, NodeKind::kRow))
      << "the second a is copied";
  EXPECT_EQ(PlaceOf(program, program.nodes[0].output).offset, 0);
  EXPECT_EQ(PlaceOf(program, program.nodes[1].output).offset, 5);
  EXPECT_EQ(PlaceOf(program, program.nodes[2].output).offset, 10);
}

TEST(Rewrite, StepsWithoutEffectVanish) {
  ModelMaker maker(6);
  const ValueId a = maker.Activate(maker.Linear(0, 5, true), ActivationKind::kNone);
  maker.Linear(a, 9, true);  // nobody reads it
  EXPECT_THAT(Kinds(Rewrite(maker, maker.Concat({maker.Max({a})}))), ElementsAre(NodeKind::kLinear));
}

TEST(Rewrite, TheInputItselfCanBeAskedFor) {
  ModelMaker maker(6);
  maker.Linear(0, 5, true);
  EXPECT_THAT(Kinds(Rewrite(maker, 0)), ElementsAre(NodeKind::kRow));
  EXPECT_THAT(Kinds(Rewrite(maker, 0, true)), ElementsAre(NodeKind::kDensify));
}

TEST(Rewrite, ACrowdedInputIsMadeDenseForAMaximum) {
  ModelMaker maker(30);
  const ValueId output = maker.Linear(maker.Propagate(0, Reduce::kMax), 8, true);
  const auto model = maker.Done(output);
  EXPECT_THAT(Kinds(RewriteModel(*model, output, true, {100, 500, 300}, false)),
              ElementsAre(NodeKind::kPropagateLinear));
  EXPECT_THAT(Kinds(RewriteModel(*model, output, true, {100, 500, 300}, true)),
              ElementsAre(NodeKind::kDensify, NodeKind::kPropagate, NodeKind::kLinear));
}

// A sum commutes with the product, which reads sparse rows best, however many nonzeros they have.
TEST(Rewrite, ACrowdedInputIsMultipliedSparseForASum) {
  ModelMaker maker(30);
  const ValueId output = maker.Linear(maker.Propagate(0, Reduce::kSum), 8, true);
  EXPECT_THAT(Kinds(RewriteModel(*maker.Done(output), output, true, {100, 500, 300}, true)),
              ElementsAre(NodeKind::kLinear, NodeKind::kPropagate));
}

TEST(Rewrite, DecisionsDoNotDependOnTheGraph) {
  ModelMaker maker(30);
  const ValueId output = maker.Linear(maker.Propagate(maker.Linear(0, 8, false), Reduce::kMean), 4, true);
  const auto model = maker.Done(output);
  for (const bool sparse : {false, true}) {
    const auto kinds = Kinds(RewriteModel(*model, output, sparse, {0, 0, 0}));
    EXPECT_EQ(Kinds(RewriteModel(*model, output, sparse, {1, 1'000'000, 1})), kinds);
    EXPECT_EQ(Kinds(RewriteModel(*model, output, sparse, {1'000'000, 1, 1'000'000'000})), kinds);
  }
}

}  // namespace
}  // namespace vicinal::internal

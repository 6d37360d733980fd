// SPDX-License-Identifier: Apache-2.0
// The two passes that change how edges and rows are stored: weights as two factors per node, and gathered rows in 16
// bits. What comes out of the passes, and what plans built with them compute, against the oracle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/plan/rewrite/rewrite.h"
#include "tests/engine/plan/plan_testing.h"

namespace vicinal::testing {
namespace {

using internal::FactorWeights;
using internal::NarrowGathers;
using internal::Node;
using internal::NodeKind;
using internal::Program;
using ::testing::ElementsAre;

constexpr AdjacencySpec kGcn = {SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnSent};

Program Rewritten(ModelMaker& maker, ValueId output) {
  return internal::RewriteModel(*maker.Done(output), output, false, {100, 500, 300});
}

std::vector<NodeKind> KindsOf(const Program& program) {
  std::vector<NodeKind> kinds;
  for (const Node& node : program.nodes) kinds.push_back(node.kind);
  return kinds;
}

TEST(FactorWeights, GoIntoTheProductBeforeAndTheStoreAfter) {
  ModelMaker maker(30);
  const Program program =
      FactorWeights(Rewritten(maker, maker.Bias(maker.Propagate(maker.Linear(0, 8, false), Reduce::kSum, kGcn))));
  ASSERT_THAT(KindsOf(program), ElementsAre(NodeKind::kLinear, NodeKind::kPropagate));
  EXPECT_EQ(program.nodes[0].epilogue.degree_scale, SelfLoops::kAddRemaining);
  EXPECT_EQ(program.nodes[1].epilogue.degree_scale, SelfLoops::kAddRemaining);
  EXPECT_FALSE(program.nodes[1].source_scale.has_value());
  EXPECT_EQ(program.nodes[1].adjacency.weighting, EdgeWeighting::kNone);
}

TEST(FactorWeights, AreReadWithTheSourceWhereItsRowsMustNotBeScaled) {
  ModelMaker maker(4);
  const ValueId x = maker.Linear(0, 4, true);  // its bias would have to be scaled, too
  const Program biased = FactorWeights(Rewritten(maker, maker.Propagate(x, Reduce::kSum, kGcn)));
  EXPECT_EQ(biased.nodes.back().source_scale, SelfLoops::kAddRemaining);
  EXPECT_FALSE(biased.nodes[0].epilogue.degree_scale.has_value());

  ModelMaker twice(30);
  const ValueId h = twice.Linear(0, 8, false);
  const Program shared = FactorWeights(Rewritten(twice, twice.Sum(h, twice.Propagate(h, Reduce::kSum, kGcn))));
  EXPECT_FALSE(shared.nodes[0].epilogue.degree_scale.has_value()) << "the sum reads it, too";
}

TEST(FactorWeights, LeaveWhatIsNoSumOfNormalisedWeights) {
  ModelMaker maker(30);
  const AdjacencySpec sent = {SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSent};
  for (const auto& [reduce, spec] : {std::pair{Reduce::kMax, kGcn}, std::pair{Reduce::kSum, sent}}) {
    const Program program = FactorWeights(Rewritten(maker, maker.Propagate(maker.Linear(0, 8, false), reduce, spec)));
    for (const Node& node : program.nodes) {
      EXPECT_FALSE(node.epilogue.degree_scale.has_value());
      EXPECT_FALSE(node.source_scale.has_value());
    }
  }
}

TEST(NarrowGathers, RoundOnceForAllThatReadAValue) {
  ModelMaker maker(30);
  const ValueId h = maker.Activate(maker.Linear(0, 8, true), ActivationKind::kRelu);
  const ValueId two = maker.Sum(maker.Propagate(h, Reduce::kMax), maker.Propagate(h, Reduce::kMin));
  const Program program = NarrowGathers(Rewritten(maker, two), Storage::kBfloat16);
  EXPECT_THAT(KindsOf(program),
              ElementsAre(NodeKind::kLinear, NodeKind::kNarrow, NodeKind::kPropagate, NodeKind::kPropagate));
  EXPECT_EQ(program.values[program.nodes[2].inputs[0]].storage, Storage::kBfloat16);
  EXPECT_EQ(program.nodes[2].inputs[0], program.nodes[3].inputs[0]);
}

// Rounding to 8 (bfloat16) or 11 bits (float16): half a unit in the last place of what is gathered, twice here, and the
// products in between do not amplify it much.
TEST(NarrowGathers, PlansStayWithinTheRoundingOfTheirStorage) {
  std::mt19937 random(5);
  const EdgeList edges = RandomEdges(60, 400, false, random);
  const auto graph = PrepareEdges(edges, OrderKind::kRcm);
  ModelMaker maker(12);
  const ValueId hidden =
      maker.Activate(maker.Bias(maker.Propagate(maker.Linear(0, 8, false), Reduce::kSum, kGcn)), ActivationKind::kRelu);
  const ValueId out = maker.Bias(maker.Propagate(maker.Linear(hidden, 5, false), Reduce::kSum, kGcn));
  const auto model = maker.Done(out);
  const std::vector<double> x = RandomFeatures(60, 12, random);
  const auto features = UploadFeatures(x, 12, false, *graph);
  PlanRequest request = RequestFor(model, graph, *features);
  const auto exact = Plan::Build(request, ThePlanBench().registry, *ThePlanBench().device);
  ASSERT_TRUE(exact.ok()) << exact.status();
  const std::vector<float> want = RunPlan(**exact, *features, *graph, false);
  for (const auto& [storage, unit] : {std::pair{Storage::kBfloat16, 0x1p-9}, std::pair{Storage::kFloat16, 0x1p-12}}) {
    request.precision = storage;
    const auto plan = Plan::Build(request, ThePlanBench().registry, *ThePlanBench().device);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const std::vector<float> got = RunPlan(**plan, *features, *graph, false);
    ASSERT_EQ(got.size(), want.size());
    double error = 0, norm = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += (got[i] - want[i]) * (got[i] - want[i]);
      norm += want[i] * want[i];
    }
    EXPECT_LE(std::sqrt(error / norm), 4 * unit);
    EXPECT_GT(std::sqrt(error / norm), unit / 64) << "was it rounded at all?";
  }
}

}  // namespace
}  // namespace vicinal::testing

// SPDX-License-Identifier: Apache-2.0
// Products that become the end of the aggregation before them: what comes out of the pass, and what plans built with it
// do. On the CPU only the reference multiplies what it sums up, so plans are made to take it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/plan/rewrite/rewrite.h"
#include "tests/engine/plan/plan_testing.h"

namespace vicinal::testing {
namespace {

using internal::FactorWeights;
using internal::FuseProducts;
using internal::Node;
using internal::NodeKind;
using internal::Program;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr AdjacencySpec kGcnOnes = {SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnOnes};

std::string Never(const Node&, int64_t) { return "no"; }
std::string Always(const Node&, int64_t) { return {}; }

Program Fused(ModelMaker& maker, ValueId output, const internal::ProductRefusal& refuses = Always) {
  return FuseProducts(
      FactorWeights(internal::RewriteModel(*maker.Done(output), output, /*sparse_input=*/true, {100, 500, 300})),
      refuses);
}

std::vector<NodeKind> NodeKindsOf(const Program& program) {
  std::vector<NodeKind> kinds;
  for (const Node& node : program.nodes) kinds.push_back(node.kind);
  return kinds;
}

ValueId GcnLayer(ModelMaker& maker, ValueId x, int64_t out) {
  return maker.Bias(maker.Propagate(maker.Linear(x, out, false), Reduce::kSum, kGcnOnes));
}
ValueId TwoGcnLayers(ModelMaker& maker) {
  return GcnLayer(maker, maker.Activate(GcnLayer(maker, 0, 16), ActivationKind::kRelu), 7);
}

TEST(FuseProducts, MakesThreeLaunchesOfAGcn) {
  ModelMaker maker(30);
  const Program program = Fused(maker, TwoGcnLayers(maker));
  ASSERT_THAT(NodeKindsOf(program), ElementsAre(NodeKind::kLinear, NodeKind::kPropagate, NodeKind::kPropagate));
  const Node& both = program.nodes[1];
  EXPECT_EQ(both.inputs[0], program.nodes[0].output);
  EXPECT_EQ(both.output, program.nodes[2].inputs[0]);
  ASSERT_NE(both.weight, nullptr);
  EXPECT_EQ(both.weight->rows, 7);
  EXPECT_NE(both.inner.bias, nullptr);
  EXPECT_EQ(both.inner.activation.kind, ActivationKind::kRelu);
  EXPECT_EQ(both.inner.degree_scale, SelfLoops::kAddRemaining);
  EXPECT_EQ(both.epilogue.degree_scale, SelfLoops::kAddRemaining) << "for the aggregation after it";
  EXPECT_EQ(both.epilogue.bias, nullptr);
  EXPECT_EQ(LayerNames(program, both), "l1 + l2 + l3 + l4");
  EXPECT_EQ(program.nodes[2].weight, nullptr);
  EXPECT_THAT(program.decisions,
              ::testing::Contains(HasSubstr("l4: fused into the aggregation of l1 + l2 + l3, whose rows")));
}

TEST(FuseProducts, TellsWhyNot) {
  ModelMaker maker(30);
  const Program program = Fused(maker, TwoGcnLayers(maker), Never);
  EXPECT_THAT(NodeKindsOf(program),
              ElementsAre(NodeKind::kLinear, NodeKind::kPropagate, NodeKind::kLinear, NodeKind::kPropagate));
  EXPECT_THAT(program.decisions, ::testing::Contains("l4: multiplied in a separate step: no"));
}

TEST(FuseProducts, AsksForTheWidthsOfTheProduct) {
  ModelMaker maker(30);
  int asked = 0;
  (void)Fused(maker, TwoGcnLayers(maker), [&](const Node& propagate, int64_t out_width) {
    ++asked;
    EXPECT_EQ(propagate.kind, NodeKind::kPropagate);
    EXPECT_EQ(out_width, 7);
    return std::string();
  });
  EXPECT_EQ(asked, 1);
}

TEST(FuseProducts, LeavesRowsThatOthersRead) {
  ModelMaker maker(30);
  const ValueId hidden = maker.Propagate(maker.Activate(maker.Linear(0, 8, true), ActivationKind::kRelu), Reduce::kMax);
  const Program program = Fused(maker, maker.Sum(maker.Normalize(maker.Linear(hidden, 8, true)), hidden));
  for (const Node& node : program.nodes) EXPECT_TRUE(node.kind == NodeKind::kLinear || node.weight == nullptr);
}

TEST(FuseProducts, LeavesRowsThatDoNotLieInFours) {
  // Two columns; and the model's input, which lies as it was sent.
  ModelMaker narrow(30);
  const ValueId two = narrow.Activate(narrow.Linear(0, 2, true), ActivationKind::kRelu);
  const Program program = Fused(narrow, narrow.Linear(narrow.Propagate(two, Reduce::kMax), 2, true));
  EXPECT_THAT(NodeKindsOf(program), ElementsAre(NodeKind::kLinear, NodeKind::kPropagate, NodeKind::kLinear));
  ModelMaker maker(8);
  const ValueId output = maker.Linear(maker.Propagate(0, Reduce::kMax), 4, true);
  const Program dense =
      FuseProducts(internal::RewriteModel(*maker.Done(output), output, false, {100, 500, 300}), Always);
  EXPECT_THAT(NodeKindsOf(dense), ElementsAre(NodeKind::kPropagate, NodeKind::kLinear));
}

TEST(FuseProducts, KeepWhatIsAddedBeforeTheProduct) {
  ModelMaker maker(30);
  const ValueId x = maker.Linear(0, 8, true), skip = maker.Normalize(maker.Linear(0, 8, true));
  const ValueId hidden = maker.Activate(maker.Sum(maker.Propagate(x, Reduce::kMax), skip), ActivationKind::kRelu);
  const Program program = Fused(maker, maker.Linear(hidden, 4, true));
  const Node& both = program.nodes.back();
  ASSERT_EQ(both.kind, NodeKind::kPropagate);
  ASSERT_NE(both.weight, nullptr);
  EXPECT_GE(both.inner.residual, 0);
  EXPECT_EQ(both.epilogue.residual, -1);
  EXPECT_EQ(CountUses(program)[both.inner.residual], 1);
}

class FusedPlans : public ::testing::Test {
 protected:
  FusedPlans() {
    std::mt19937 random(11);
    edges_ = RandomEdges(50, 300, false, random);
    graph_ = PrepareEdges(edges_, OrderKind::kRcm);
    x_ = RandomFeatures(50, 12, random);
    features_ = UploadFeatures(x_, 12, true, *graph_);
    ModelMaker maker(12);
    model_ = maker.Done(TwoGcnLayers(maker));
  }
  PlanRequest Request(const ForcedKernels& forced) { return RequestFor(model_, graph_, *features_, forced); }
  std::shared_ptr<Plan> Build(const PlanRequest& request) {
    const auto plan = Plan::Build(request, ThePlanBench().registry, *ThePlanBench().device);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *plan;
  }
  std::vector<std::string> Operations(const Plan& plan) {
    std::vector<std::string> operations;
    for (const PlanStepInfo& step : plan.Steps()) operations.push_back(step.operation);
    return operations;
  }

  EdgeList edges_;
  std::shared_ptr<const PreparedGraph> graph_;
  std::vector<double> x_;
  std::shared_ptr<const FeatureMatrix> features_;
  std::shared_ptr<const Model> model_;
};

const ForcedKernels kReference = {{"aggregate", "reference"}};

TEST_F(FusedPlans, AreWhatTheModelSays) {
  const auto plan = Build(Request(kReference));
  EXPECT_THAT(Operations(*plan), ElementsAre("sparse_update", "aggregate", "aggregate"));
  const InterpreterInput input{&edges_, &x_, {}};
  ExpectNear(RunPlan(*plan, *features_, *graph_, false), *Interpret(*model_, input, model_->outputs[0].value), 7, "");
  const PlanStepInfo both = plan->Steps()[1];
  EXPECT_THAT(both.description, HasSubstr("[50, 7] = (sum over A[50, 50]"));
  EXPECT_THAT(both.description, HasSubstr(" + bias, then relu) * W^T [16, 7]"));
  EXPECT_EQ(both.layers, "l1 + l2 + l3 + l4");
  ASSERT_TRUE(both.tuning_key.has_value());
  EXPECT_EQ(both.tuning_key->width, 16) << "tuned as the sum that it is";
  EXPECT_EQ(both.predicted_operations - plan->Steps()[2].predicted_operations,
            // Per edge and per row: nine columns more; then the product, and the bias and the activation of 16 columns
            // in place of the bias of 7.
            9 * graph_->ShapeOf({SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kNone}).edges + 50 * (2 * 16 * 7 + 25));
}

TEST_F(FusedPlans, HaveFewerBytesOfTheirOwn) {
  const auto fused = Build(Request(kReference));
  const auto apart = Build(Request({{"aggregate", "reference"}, {"dense_update", "reference"}}));
  EXPECT_THAT(Operations(*apart), ElementsAre("sparse_update", "aggregate", "dense_update", "aggregate"));
  EXPECT_LT(fused->scratch_bytes(), apart->scratch_bytes());
  EXPECT_EQ(RunPlan(*fused, *features_, *graph_, false), RunPlan(*apart, *features_, *graph_, false));
}

TEST_F(FusedPlans, AreNotMadeWhereAProductIsSpokenOf) {
  PlanRequest rounded = Request(kReference);
  rounded.products = ProductPrecision::kTf32;
  EXPECT_EQ(Build(rounded)->Steps().size(), 4u);
  EXPECT_THAT(Build(rounded)->Decisions(), ::testing::Contains(HasSubstr("allows rounding its factors")));
  EXPECT_EQ(Build(Request({{"aggregate", "reference"}, {"dense_update", "simd_rows"}}))->Steps().size(), 4u);
}

TEST_F(FusedPlans, AreNotMadeWhereTheKernelOfTheSumDoesNotMultiply) {
  const auto plan = Build(Request({}));
  EXPECT_EQ(plan->Steps().size(), 4u);
  EXPECT_THAT(plan->Decisions(), ::testing::Contains(HasSubstr("simd_rows: it does not multiply what it sums up")));
}

TEST_F(FusedPlans, FollowWhatTuningFound) {
  (void)Build(Request({}));  // so that the table knows the work
  for (const TuningWork& work : graph_->tuning().Works()) {
    TuningRecord record;
    record.key = work.key;
    record.state = TuningState::kForced;
    record.candidates.resize(1);
    record.candidates[0].setting = {"reference", {}};
    graph_->tuning().Put(record);
  }
  const auto plan = Build(Request({}));
  EXPECT_THAT(Operations(*plan), ElementsAre("sparse_update", "aggregate", "aggregate"));
  EXPECT_TRUE(plan->Steps()[1].tuned);
}

}  // namespace
}  // namespace vicinal::testing

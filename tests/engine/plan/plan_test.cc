// SPDX-License-Identifier: Apache-2.0
// Plans against the oracle: random models on random graphs, in every order, with every kernel forced in turn, dense and
// sparse; and what a plan refuses, repeats, and stops for.
#include "engine/plan/plan.h"

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "tests/engine/plan/plan_testing.h"

namespace vicinal::testing {
namespace {

// Whether a kernel that was forced does not do what the model needs.
bool Refused(const Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() && detail->reason == "KERNEL_REFUSED";
}

class RandomModels : public ::testing::TestWithParam<int> {};

TEST_P(RandomModels, EqualTheOracle) {
  std::mt19937 random(static_cast<uint32_t>(GetParam()));
  const bool weighted = random() % 2, pooled = random() % 4 == 0;
  const int64_t nodes = 20 + static_cast<int64_t>(random() % 60), cols = 3 + static_cast<int64_t>(random() % 30);
  EdgeList edges = RandomEdges(nodes, nodes * 4, weighted, random);
  std::vector<int64_t> segments;
  if (pooled) {
    // Two graphs: edges that cross are drawn back into the first.
    segments = {0, nodes / 2, nodes};
    for (size_t e = 0; e < edges.source.size(); ++e) {
      if ((edges.source[e] < nodes / 2) != (edges.target[e] < nodes / 2)) edges.source[e] = edges.target[e];
    }
  }
  const auto model = AnyModel(cols, weighted, pooled, static_cast<uint32_t>(GetParam()));
  const std::vector<double> x = RandomFeatures(nodes, cols, random);
  const NamedOutput& output = *model->FindOutput("logits");
  const InterpreterInput input{&edges, &x, segments, EdgeFeaturesOf(edges)};
  const auto expected = Interpret(*model, input, output.value);
  ASSERT_TRUE(expected.ok()) << expected.status();

  for (const OrderKind order : {OrderKind::kNone, OrderKind::kDegree, OrderKind::kRcm}) {
    if (pooled && order != OrderKind::kNone) continue;  // batches keep their order
    const auto graph = PrepareEdges(edges, order, segments);
    for (const bool sparse : {false, true}) {
      const auto features = UploadFeatures(x, cols, sparse, *graph);
      std::vector<ForcedKernels> all_forced = {{}};
      ThePlanBench().registry.ForEachOperation([&](const auto& operation) {
        for (const auto& kernel : operation.kernels()) {
          all_forced.push_back({{std::string(operation.operation()), std::string(kernel->kernel().name())}});
        }
      });
      if (order == OrderKind::kDegree) all_forced.resize(1);
      for (const ForcedKernels& forced : all_forced) {
        const std::string what =
            absl::StrCat("seed ", GetParam(), ", order ", static_cast<int>(order), sparse ? ", sparse " : ", dense ",
                         forced.empty() ? "" : forced.begin()->first + "=" + forced.begin()->second);
        const PlanRequest request = RequestFor(model, graph, *features, forced);
        int64_t admitted = -1;
        const auto admit = [&admitted](int64_t bytes) { return admitted = bytes, OkStatus(); };
        const int64_t held = ThePlanBench().device->allocated_bytes();
        const auto plan = Plan::Build(request, ThePlanBench().registry, *ThePlanBench().device, admit);
        if (!forced.empty() && Refused(plan.status())) continue;
        ASSERT_TRUE(plan.ok()) << what << plan.status();
        EXPECT_EQ(admitted, ThePlanBench().device->allocated_bytes() - held + (*plan)->step_bytes()) << what;
        EXPECT_LE((*plan)->size_bytes(), admitted) << what;
        const std::vector<float> got = RunPlan(**plan, *features, *graph, pooled);
        ExpectNear(got, *expected, output.width, what);
        EXPECT_EQ(RunPlan(**plan, *features, *graph, pooled), got) << what;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomModels, ::testing::Range(0, 150));

// The two products that EdgeConv's first layer is split into are rounded at their own size (docs/layers.md): that
// bounds what an offset common to all features costs.
TEST(EdgeConv, AnOffsetCostsTheRoundingOfTwoProductsAndNoMore) {
  constexpr int64_t kNodes = 60, kCols = 16, kOut = 12;
  std::mt19937 random(5);
  const EdgeList edges = RandomEdges(kNodes, 4 * kNodes, false, random);
  const auto graph = PrepareEdges(edges, OrderKind::kRcm);
  for (const float offset : {0.0f, 1e4f}) {
    std::uniform_real_distribution<float> draw(offset - 2.0f, offset + 2.0f);
    std::vector<double> x(kNodes * kCols);
    for (double& value : x) value = draw(random);
    const auto features = UploadFeatures(x, kCols, false, *graph);
    ModelMaker maker(kCols);
    const auto model = maker.Done(maker.EdgeConv(0, Reduce::kMax, {kOut}, {3}));
    const auto plan =
        *Plan::Build(RequestFor(model, graph, *features), ThePlanBench().registry, *ThePlanBench().device);
    const std::vector<float> got = RunPlan(*plan, *features, *graph, false);
    const InterpreterInput input{&edges, &x, {}, EdgeFeaturesOf(edges)};
    const std::vector<double> expected = *Interpret(*model, input, model->outputs[0].value);
    ASSERT_EQ(got.size(), expected.size());
    const auto& nn = std::get<EdgeConvStep>(model->steps[0].op).nn;
    const std::vector<float>& weight = std::get<LinearStep>(nn[0]).weight->values;  // [kOut, 2 * kCols]
    for (int64_t h = 0; h < kOut; ++h) {
      double products = 1.0;  // the bias
      for (int64_t f = 0; f < kCols; ++f) {
        const double a = weight[h * 2 * kCols + f], b = weight[h * 2 * kCols + kCols + f];
        products += (std::abs(a - b) + std::abs(b)) * (offset + 2.0);
      }
      // Each term is rounded when its weight is, when it is multiplied and added, and once more when both are added.
      const double bound = products * static_cast<double>(kCols + 4) * 0x1p-24;
      for (int64_t v = 0; v < kNodes; ++v) {
        EXPECT_NEAR(got[v * kOut + h], expected[v * kOut + h], bound) << offset << ", node " << v;
      }
    }
  }
}

class PlanCases : public ::testing::Test {
 protected:
  PlanCases() {
    ModelMaker maker(8);
    const ValueId hidden =
        maker.Activate(maker.Propagate(maker.Linear(0, 6, false), Reduce::kSum), ActivationKind::kRelu);
    model_ = maker.Done(maker.Propagate(maker.Linear(hidden, 3, true), Reduce::kMean));
    std::mt19937 random(1);
    edges_ = RandomEdges(30, 90, false, random);
    graph_ = PrepareEdges(edges_, OrderKind::kRcm);
    x_ = RandomFeatures(30, 8, random);
    features_ = UploadFeatures(x_, 8, false, *graph_);
  }
  StatusOr<std::shared_ptr<Plan>> Build(const PlanRequest& request) {
    return Plan::Build(request, ThePlanBench().registry, *ThePlanBench().device);
  }

  std::shared_ptr<const Model> model_;
  EdgeList edges_;
  std::shared_ptr<const PreparedGraph> graph_;
  std::vector<double> x_;
  std::shared_ptr<const FeatureMatrix> features_;
};

TEST_F(PlanCases, RefusesWhatCannotBe) {
  const auto refused = [&](const PlanRequest& request, StatusCode code, const std::string& reason) {
    const auto plan = Build(request);
    EXPECT_EQ(plan.status().code(), code) << plan.status();
    ASSERT_TRUE(DetailOf(plan.status()).has_value());
    EXPECT_EQ(DetailOf(plan.status())->reason, reason);
  };
  PlanRequest request = RequestFor(model_, graph_, *features_);
  request.features.cols = 9;
  refused(request, StatusCode::kFailedPrecondition, "FEATURE_WIDTH");
  refused(RequestFor(model_, graph_, *features_, {{"aggregat", "reference"}}), StatusCode::kInvalidArgument,
          "OPERATION_UNKNOWN");
  refused(RequestFor(model_, graph_, *features_, {{"aggregate", "magic"}}), StatusCode::kInvalidArgument,
          "KERNEL_UNKNOWN");
  ModelMaker maker(8);
  AdjacencySpec sent;
  sent.weighting = EdgeWeighting::kSent;
  const auto weighted = maker.Done(maker.Propagate(0, Reduce::kSum, sent));
  refused(RequestFor(weighted, graph_, *features_), StatusCode::kFailedPrecondition, "EDGE_WEIGHT_MISSING");
}

TEST_F(PlanCases, TakesNothingThatIsNotAdmitted) {
  const int64_t held = ThePlanBench().device->allocated_bytes(), of_graph = graph_->size_bytes();
  int64_t asked = 0;
  const auto refuse = [&asked](int64_t bytes) {
    asked = bytes;
    return ResourceExhausted("BUDGET_FULL", "no", std::chrono::seconds(1));
  };
  const auto plan =
      Plan::Build(RequestFor(model_, graph_, *features_), ThePlanBench().registry, *ThePlanBench().device, refuse);
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
  EXPECT_GT(asked, 0);
  EXPECT_EQ(ThePlanBench().device->allocated_bytes(), held);
  EXPECT_EQ(graph_->size_bytes(), of_graph);
  EXPECT_TRUE(graph_->tuning().Works().empty()) << "tuning learns of plans that run";
}

// A GAT of many heads has scores made of its weights that are larger than they are.
TEST_F(PlanCases, WhatIsMadeOfWeightsIsAdmittedBeforeItIsMade) {
  constexpr int64_t kHeads = 200;
  ModelMaker maker(8);
  const auto model = maker.Done(maker.Attention(maker.Linear(0, kHeads, false), kHeads, true));
  std::vector<int64_t> asked;
  const auto refuse = [&asked](int64_t bytes) { return asked.push_back(bytes), absl::CancelledError("counted"); };
  EXPECT_FALSE(
      Plan::Build(RequestFor(model, graph_, *features_), ThePlanBench().registry, *ThePlanBench().device, refuse).ok());
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_GE(asked[0], 2 * kHeads * 8 * static_cast<int64_t>(sizeof(double)));
}

TEST_F(PlanCases, WeightsThatLayersShareArePackedOnce) {
  constexpr int64_t kWidth = 64;
  const auto size_of = [&](int layers, bool shared) {
    ModelMaker maker(8);
    ValueId x = maker.Linear(0, kWidth, false);
    for (int layer = 0; layer < layers; ++layer)
      x = maker.Linear(maker.Activate(x, ActivationKind::kRelu), kWidth, false);
    Model model = *maker.Done(x);
    for (size_t i = 4; shared && i < model.steps.size(); i += 2) model.steps[i].op = model.steps[2].op;
    const auto plan = *Build(RequestFor(std::make_shared<const Model>(model), graph_, *features_));
    return plan->size_bytes() - plan->step_bytes();
  };
  constexpr int64_t kWeightBytes = kWidth * kWidth * static_cast<int64_t>(sizeof(float));
  EXPECT_EQ(size_of(10, true), size_of(1, true));
  EXPECT_GE(size_of(10, false), size_of(1, false) + 9 * kWeightBytes);
}

TEST_F(PlanCases, StepsCount) {
  const auto bytes_of = [&](int steps) {
    ModelMaker maker(8);
    ValueId x = 0;
    for (int i = 0; i < steps; ++i) x = maker.Propagate(x, Reduce::kMax);
    const auto plan = *Build(RequestFor(maker.Done(x), graph_, *features_));
    EXPECT_EQ(plan->size_bytes(), plan->scratch_bytes() + plan->step_bytes());
    return plan->step_bytes();
  };
  EXPECT_GE(bytes_of(1001) - bytes_of(1), 1000 * 800);
  EXPECT_LE(bytes_of(1001) - bytes_of(1), 1000 * 3000);
}

// Layers whose scratch is the same memory were counted one by one, and deep models refused.
TEST_F(PlanCases, AdmissionKnowsThatLayersShareMemory) {
  const auto scratch_of = [&](int layers) {
    ModelMaker maker(8);
    ValueId x = maker.Linear(0, 16, true);
    for (int layer = 0; layer < layers; ++layer) {
      x = maker.Activate(maker.Propagate(maker.Linear(x, 16, false), Reduce::kMax), ActivationKind::kRelu);
    }
    const auto model = maker.Done(x);
    int64_t asked = 0;
    const auto count = [&asked](int64_t bytes) { return asked = bytes, OkStatus(); };
    const int64_t held = ThePlanBench().device->allocated_bytes();
    const auto plan =
        Plan::Build(RequestFor(model, graph_, *features_), ThePlanBench().registry, *ThePlanBench().device, count);
    EXPECT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(asked, ThePlanBench().device->allocated_bytes() - held + (*plan)->step_bytes());
    return (*plan)->scratch_bytes();
  };
  EXPECT_EQ(scratch_of(3), scratch_of(100));
}

TEST_F(PlanCases, StopsBetweenSteps) {
  const auto plan = Build(RequestFor(model_, graph_, *features_));
  ASSERT_TRUE(plan.ok());
  ASSERT_GE((*plan)->Steps().size(), 3u);
  int asked = 0;
  const StopCheck stop = [&asked] { return ++asked <= 2 ? OkStatus() : absl::CancelledError("gone"); };
  const auto stopped = (*plan)->Run(*ThePlanBench().context, *features_, stop, StatsSink::Null(), Clock::Real());
  EXPECT_EQ(stopped.status().code(), StatusCode::kCancelled);
  EXPECT_EQ((*plan)->Steps()[1].run_count, 1);
  EXPECT_EQ((*plan)->Steps()[2].run_count, 0);
  // And runs as ever afterwards.
  InterpreterInput input{&edges_, &x_, {}};
  ExpectNear(RunPlan(**plan, *features_, *graph_, false), *Interpret(*model_, input, model_->outputs[0].value), 3,
             "after a stop");
}

TEST_F(PlanCases, TellsItsStepsAndTimesThem) {
  class Recorder final : public StatsSink {
   public:
    void StageSeconds(std::string_view, double) override {}
    void PhaseSeconds(std::string_view phase, double) override { phases.emplace_back(phase); }
    void QueueDepth(int64_t) override {}
    std::vector<std::string> phases;
  };
  const auto plan = Build(RequestFor(model_, graph_, *features_));
  ASSERT_TRUE(plan.ok());
  Recorder recorder;
  ASSERT_TRUE((*plan)->Run(*ThePlanBench().context, *features_, nullptr, recorder, Clock::Real()).ok());
  const std::vector<PlanStepInfo> steps = (*plan)->Steps();
  ASSERT_EQ(recorder.phases.size(), steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].operation, recorder.phases[i]);
    EXPECT_EQ(steps[i].run_count, 1);
    EXPECT_GT(steps[i].predicted_bytes, 0);
    EXPECT_GT(steps[i].predicted_operations, 0);
    EXPECT_FALSE(steps[i].kernel.empty());
    EXPECT_FALSE(steps[i].layers.empty());
    EXPECT_EQ(steps[i].locality, steps[i].operation == "aggregate" ? Locality::kNeighbourhood : Locality::kNode);
  }
  EXPECT_EQ(steps[0].operation, "dense_update");
  EXPECT_EQ(steps[0].description, "[30, 6] = x [30, 8] * W^T [8, 6]");
}

TEST_F(PlanCases, RunsOtherCountsOfNonzerosThanItWasMadeWith) {
  const auto sparse = UploadFeatures(x_, 8, true, *graph_);
  const auto plan = Build(RequestFor(model_, graph_, *sparse));
  ASSERT_TRUE(plan.ok());
  std::vector<double> full(x_.size(), 0.5);
  const auto more = UploadFeatures(full, 8, true, *graph_);
  InterpreterInput input{&edges_, &full, {}};
  ExpectNear(RunPlan(**plan, *more, *graph_, false), *Interpret(*model_, input, model_->outputs[0].value), 3,
             "more nonzeros");
}

}  // namespace
}  // namespace vicinal::testing

// SPDX-License-Identifier: Apache-2.0
// Receptive fields on a device with memory of its own: what is sent and gathered there gives the bits of the full graph
// there, and those of the CPU, whose kernels it has.
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/execute/run_for_nodes.h"
#include "tests/engine/counting_new.h"
#include "tests/engine/plan/own_memory_device.h"
#include "tests/engine/plan/plan_testing.h"
#include "tests/engine/plan/receptive_field/receptive_field_models.h"
#include "tests/engine/plan/receptive_field/receptive_field_testing.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kNodes = 300, kCols = 41;

// A plan on the device, and requests to it.
class ReceptiveFieldOnDeviceTest : public ::testing::TestWithParam<size_t> {
 protected:
  ReceptiveFieldOnDeviceTest() : context_(device_) {
    const KernelRegistry& cpu = ThePlanBench().registry;
    AddKernelsThere(cpu.aggregate, &registry_.aggregate);
    AddKernelsThere(cpu.attention, &registry_.attention);
    AddKernelsThere(cpu.message_reduce, &registry_.message_reduce);
    AddKernelsThere(cpu.expression, &registry_.expression);
    AddKernelsThere(cpu.dense_update, &registry_.dense_update);
    AddKernelsThere(cpu.sparse_update, &registry_.sparse_update);
    AddKernelsThere(cpu.sparse_aggregate_update, &registry_.sparse_aggregate_update);
    AddKernelsThere(cpu.rowwise, &registry_.rowwise);
  }

  // The graph and features on both, the plan on the device; returns the CPU's answers in the client's order.
  std::vector<float> Make(const std::shared_ptr<const Model>& model, const EdgeList& edges,
                          const std::vector<double>& x, bool sparse, OrderKind order) {
    const auto cpu_graph = PrepareEdges(edges, order);
    const auto cpu_features = UploadFeatures(x, model->feature_count, sparse, *cpu_graph);
    const auto cpu =
        Plan::Build(RequestFor(model, cpu_graph, *cpu_features), ThePlanBench().registry, *ThePlanBench().device);
    EXPECT_TRUE(cpu.ok()) << cpu.status();
    graph_ = PrepareEdges(edges, order, {}, &device_);
    features_ = UploadFeatures(x, model->feature_count, sparse, *graph_, &device_);
    const auto plan = Plan::Build(RequestFor(model, graph_, *features_), registry_, device_);
    EXPECT_TRUE(plan.ok()) << plan.status();
    plan_ = *plan;
    parts_.features = features_.get();
    return RunPlan(**cpu, *cpu_features, *cpu_graph, false);
  }
  // Two layers of SAGE over random edges.
  std::vector<float> MakeSage() {
    std::mt19937 random(3);
    ModelMaker maker(kCols);
    const auto model = maker.Done(Sage(maker, Relu(maker, Sage(maker, 0, 8, Reduce::kMean)), 3, Reduce::kMean));
    const EdgeList edges = RandomEdges(kNodes, 2 * kNodes, false, random);
    return Make(model, edges, RandomFeatures(kNodes, kCols, random), false, OrderKind::kRcm);
  }

  StatusOr<ComputedRows> Run(const std::vector<int64_t>& ids, ReceptiveField receptive_field) {
    wanted_ = {&ids, &graph_->parts().permutation, receptive_field};
    return RunForNodes(*plan_, wanted_, parts_);
  }
  std::vector<float> Answer(const std::vector<int64_t>& ids, ReceptiveField receptive_field) {
    const auto computed = Run(ids, receptive_field);
    EXPECT_TRUE(computed.ok()) << computed.status();
    if (!computed.ok()) return {};
    EXPECT_EQ(computed->receptive_field, receptive_field == ReceptiveField::kAlways);
    return *GatherWanted(*computed, wanted_, parts_);
  }
  void ExpectAnswers(const std::vector<int64_t>& ids, const std::vector<float>& all, const std::string& what) {
    const int64_t width = static_cast<int64_t>(all.size()) / kNodes;
    std::vector<float> expected;
    for (const int64_t id : ids) expected.insert(expected.end(), &all[id * width], &all[id * width] + width);
    EXPECT_EQ(Answer(ids, ReceptiveField::kAlways), expected) << what;
  }

  OwnMemoryDevice device_;
  OwnMemoryContext context_;
  KernelRegistry registry_;
  std::shared_ptr<const PreparedGraph> graph_;
  std::shared_ptr<const FeatureMatrix> features_;
  std::shared_ptr<Plan> plan_;
  TestAccount account_;
  ReceptiveFieldWorkspace workspace_{&device_, account_.purpose()};
  StopCheck stop_ = [] { return OkStatus(); };
  WantedRows wanted_;
  RunParts parts_ = {&context_, nullptr, &workspace_, &stop_, &StatsSink::Null(), &Clock::Real()};
};

TEST_P(ReceptiveFieldOnDeviceTest, SameBitsAsTheFullGraphAndTheCpu) {
  const ReceptiveFieldModel& test = ReceptiveFieldModels()[GetParam()];
  ModelMaker maker(kCols, static_cast<uint32_t>(GetParam()) + 1);
  const auto model = maker.Done(test.layers(maker));
  std::mt19937 random(static_cast<uint32_t>(GetParam()) + 7);
  const EdgeList edges = RandomEdges(kNodes, 4 * kNodes, test.weighted, random);
  const std::vector<double> x = RandomFeatures(kNodes, kCols, random);
  std::vector<int64_t> everyone(kNodes);
  std::iota(everyone.begin(), everyone.end(), 0);
  for (const OrderKind order : {OrderKind::kNone, OrderKind::kRcm}) {
    for (const bool sparse : {false, true}) {
      const std::string what = absl::StrCat(test.name, sparse ? ", sparse" : ", dense");
      const std::vector<float> expected = Make(model, edges, x, sparse, order);
      ASSERT_EQ(plan_->field().refusal, "") << what;
      EXPECT_EQ(Answer(everyone, ReceptiveField::kNever), expected) << what;
      for (const size_t count : {1, 2, 9, 120}) {
        std::vector<int64_t> ids;
        while (ids.size() < count) ids.push_back(static_cast<int64_t>(random() % kNodes));
        ExpectAnswers(ids, expected, what);
      }
      ExpectAnswers({kNodes - 1, 3, 3, kNodes - 1}, expected, what + ", repeated and isolated");
      EXPECT_EQ(Answer(everyone, ReceptiveField::kNever), expected) << what << ", the full graph again";
      ExpectAnswers(everyone, expected, what + ", everyone");
      ExpectAnswers({5}, expected, what + ", one after all");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ReceptiveFieldOnDeviceTest, ::testing::Range(size_t{0}, ReceptiveFieldModels().size()),
                         [](const auto& info) { return ReceptiveFieldModels()[info.param].name; });

using OneModel = ReceptiveFieldOnDeviceTest;

TEST_F(OneModel, OneSendOfWhatTheFieldNeedsAndNoMemoryOnceWarm) {
  const std::vector<float> all = MakeSage();
  std::vector<int64_t> many(60);
  std::iota(many.begin(), many.end(), 100);
  ExpectAnswers(many, all, "the largest first");
  EXPECT_EQ(account_.held(), device_.allocated_bytes() - graph_->Adjacency({}).value()->size_bytes() -
                                 features_->size_bytes() - (plan_->size_bytes() - plan_->step_bytes()) +
                                 workspace_.host->allocated_bytes())
      << "all that the workspace holds, there and here, is accounted for";
  const int64_t held = account_.held(), allocated = device_.allocated_bytes();
  context_.sends = 0, context_.sent_bytes = 0;
  ExpectAnswers({7}, all, "one node");
  EXPECT_EQ(context_.sends, 1);
  const ReceptiveFieldFinder& field = workspace_.finder;
  const CsrView edges = field.Adjacency(0);
  EXPECT_EQ(context_.sent_bytes, 8 * field.num_nodes() + 8 * (edges.rows + 1) + 4 * edges.nnz);
  EXPECT_EQ(account_.held(), held);
  EXPECT_EQ(device_.allocated_bytes(), allocated);
  const auto warm = [&] {
    return *workspace_.finder.Find(plan_->field(), many, graph_->parts().permutation, ReceptiveFieldFinder::kNoLimit,
                                   1) &&
           plan_->RunReceptiveField(context_, *features_, nullptr, &workspace_, stop_, StatsSink::Null(), Clock::Real())
               .ok();
  };
  ASSERT_TRUE(warm());
  const int64_t before = allocations.load();
  ASSERT_GT(before, 0);
  ASSERT_TRUE(warm());
  EXPECT_EQ(allocations.load() - before, 0);
}

TEST_F(OneModel, StepsOfFieldsAreCountedAndNotTimed) {
  const std::vector<float> all = MakeSage();
  for (const int64_t node : {3, 17, 39}) ExpectAnswers({node}, all, "one node");
  for (const PlanStepInfo& step : plan_->Steps()) {
    EXPECT_EQ(step.run_count, 0) << step.description;
    EXPECT_EQ(step.receptive_field_run_count, 3) << step.description;
    EXPECT_EQ(step.receptive_field_total_seconds, 0.0) << "a clock around a launch tells nothing";
  }
}

TEST_F(OneModel, RefusedMemoryMeansTheFullGraphOrAnError) {
  const std::vector<float> all = MakeSage();
  const std::vector<int64_t> ids = {4, 7};
  int64_t most = 0;
  for (;; most += 1000) {
    account_.Allow(most);
    const auto computed = Run(ids, ReceptiveField::kAlways);
    if (computed.ok()) break;
    EXPECT_EQ(computed.status().code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(Answer(ids, ReceptiveField::kNever).size(), 6u);
  }
  EXPECT_GT(most, 0);
  ExpectAnswers(ids, all, "once there is memory");
}

TEST_F(OneModel, StopsBetweenStepsAndAnswersAsEverAfterwards) {
  const std::vector<float> all = MakeSage();
  for (int steps = 0; steps < static_cast<int>(plan_->Steps().size()); ++steps) {
    int asked = 0;
    stop_ = [&] { return asked++ < steps ? OkStatus() : absl::CancelledError("gone"); };
    EXPECT_EQ(Run({4, 7}, ReceptiveField::kAlways).status().code(), StatusCode::kCancelled) << steps;
  }
  stop_ = [] { return OkStatus(); };
  ExpectAnswers({4, 7}, all, "after cancelled ones");
}

TEST_F(OneModel, AnErrorOfTheDeviceIsTheRequestsAndNotTheNextOnes) {
  const std::vector<float> all = MakeSage();
  const std::vector<float> full = Answer({4, 7}, ReceptiveField::kNever);
  context_.fail_sends = true;
  EXPECT_EQ(Run({4, 7}, ReceptiveField::kAlways).status().code(), StatusCode::kInternal);
  EXPECT_EQ(Answer({4, 7}, ReceptiveField::kNever), full);
  context_.fail_sends = false;
  ExpectAnswers({4, 7}, all, "after an error");
}

// Work on rows makes the full graph dear; launches make the field of few nodes cheap beside it, or dear.
TEST_F(OneModel, AutoWeighsLaunchesAgainstTheGraph) {
  MakeSage();
  const auto small = Run({4, 7}, ReceptiveField::kAuto);
  ASSERT_TRUE(small.ok());
  EXPECT_FALSE(small->receptive_field) << "a graph of 300 nodes is done before the launches are";
  constexpr int64_t kMany = 4000, kWide = 1024;
  std::mt19937 random(5);
  ModelMaker maker(kCols);
  const ValueId wide = Relu(maker, maker.Linear(maker.Linear(0, kWide, true), kWide, true));
  const auto model = maker.Done(Sage(maker, wide, 3, Reduce::kMean));
  graph_ = PrepareEdges(RandomEdges(kMany, 2 * kMany, false, random), OrderKind::kNone, {}, &device_);
  features_ = UploadFeatures(RandomFeatures(kMany, kCols, random), kCols, false, *graph_, &device_);
  plan_ = *Plan::Build(RequestFor(model, graph_, *features_), registry_, device_);
  parts_.features = features_.get();
  const auto large = Run({4, 7}, ReceptiveField::kAuto);
  ASSERT_TRUE(large.ok());
  EXPECT_TRUE(large->receptive_field);
  EXPECT_LT(large->computed_nodes, 100);
}

TEST_F(OneModel, FeaturesOfEdgesAreSentOnceAndCountedBeforehand) {
  std::mt19937 random(3);
  ModelMaker maker(kCols);
  const auto model = maker.Done(TwoWithEdgeFeatures(maker, AttentionKind::kGat, LoopFeatures()));
  const EdgeList edges = RandomEdges(kNodes, 4 * kNodes, false, random);
  const auto admitted = [&] {
    int64_t last = 0;  // the bytes with all that the graph derives for the plan
    const auto admit = [&](int64_t bytes) {
      last = bytes;
      return OkStatus();
    };
    const auto plan = Plan::Build(RequestFor(model, graph_, *features_), registry_, device_, admit);
    EXPECT_TRUE(plan.ok()) << plan.status();
    plan_ = *plan;
    return last;
  };
  graph_ = PrepareEdges(edges, OrderKind::kNone, {}, &device_);
  features_ = UploadFeatures(RandomFeatures(kNodes, kCols, random), kCols, false, *graph_, &device_);
  const int64_t before = graph_->size_bytes(), first = admitted(), held = graph_->size_bytes();
  EXPECT_TRUE(graph_->HoldsEdgeFeatures());
  EXPECT_EQ(held - before,
            graph_->Adjacency({}).value()->size_bytes() +
                graph_->Adjacency(Spec(SelfLoops::kReplace, EdgeWeighting::kNone)).value()->size_bytes() +
                4 * kEdgeFeatures * (edges.num_edges() + kNodes))
      << "both adjacencies, features of edges and means of loops";
  EXPECT_EQ(first - admitted(), held - before) << "counted for the first plan alone";
  EXPECT_EQ(graph_->size_bytes(), held);
}

TEST_F(OneModel, WithoutAKernelThatGathersRowsThereAreNoFields) {
  MakeSage();
  registry_.rowwise = OperationKernels<RowwiseKernel>("rowwise");
  ModelMaker maker(kCols);
  const auto model = maker.Done(maker.Propagate(maker.Linear(0, 4, true), Reduce::kSum));
  plan_ = *Plan::Build(RequestFor(model, graph_, *features_), registry_, device_);
  EXPECT_EQ(plan_->field().refusal, "no kernel of own:0 gathers rows of these features");
  const auto refused = Run({1}, ReceptiveField::kAlways);
  ASSERT_TRUE(DetailOf(refused.status()).has_value());
  EXPECT_EQ(DetailOf(refused.status())->reason, "NO_RECEPTIVE_FIELD");
}

}  // namespace
}  // namespace vicinal::testing

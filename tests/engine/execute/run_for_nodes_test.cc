// SPDX-License-Identifier: Apache-2.0
// Which way a request for nodes is computed, what it reports, and what happens when a field's memory is refused.
#include "engine/execute/run_for_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/plan/plan_testing.h"
#include "tests/engine/plan/receptive_field/receptive_field_testing.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kNodes = 2000, kCols = 8;

class PhaseRecorder final : public StatsSink {
 public:
  void StageSeconds(std::string_view, double) override {}
  void PhaseSeconds(std::string_view phase, double) override { phases.emplace_back(phase); }
  void QueueDepth(int64_t) override {}
  int64_t Count(const std::string& phase) const { return std::count(phases.begin(), phases.end(), phase); }
  std::vector<std::string> phases;
};

class RunForNodesTest : public ::testing::Test {
 protected:
  RunForNodesTest() {
    std::mt19937 random(4);
    graph_ = PrepareEdges(RandomEdges(kNodes, 3 * kNodes, false, random), OrderKind::kRcm);
    features_ = UploadFeatures(RandomFeatures(kNodes, kCols, random), kCols, false, *graph_);
    ModelMaker maker(kCols);
    const ValueId hidden =
        maker.Activate(maker.Linear(maker.Propagate(0, Reduce::kMean), 12, true), ActivationKind::kRelu);
    plan_ = Build(maker.Done(maker.Linear(maker.Propagate(hidden, Reduce::kMean), 3, true)));
    ModelMaker norm(kCols);
    whole_graph_ = Build(norm.Done(norm.LayerNorm(norm.Linear(0, 4, true), false)));
    everyone_.resize(kNodes);
    std::iota(everyone_.begin(), everyone_.end(), 0);
  }

  std::shared_ptr<Plan> Build(const std::shared_ptr<const Model>& model) {
    return *Plan::Build(RequestFor(model, graph_, *features_), ThePlanBench().registry, *ThePlanBench().device);
  }
  StatusOr<ComputedRows> Run(Plan& plan, const std::vector<int64_t>* ids, ReceptiveField receptive_field) {
    wanted_ = {ids, &graph_->parts().permutation, receptive_field};
    return RunForNodes(plan, wanted_, parts_);
  }
  std::vector<float> Gather(const ComputedRows& computed) { return *GatherWanted(computed, wanted_, parts_); }

  std::shared_ptr<const PreparedGraph> graph_;
  std::shared_ptr<const FeatureMatrix> features_;
  std::shared_ptr<Plan> plan_, whole_graph_;
  std::vector<int64_t> everyone_;
  const std::vector<int64_t> few_ = {1999, 3, 3, 700};
  TestAccount account_;
  ReceptiveFieldWorkspace workspace_{ThePlanBench().device.get(), account_.purpose()};
  PhaseRecorder recorder_;
  const StopCheck no_stop_ = [] { return OkStatus(); };
  WantedRows wanted_;
  RunParts parts_ = {ThePlanBench().context.get(), nullptr, &workspace_, &no_stop_, &recorder_, &Clock::Real()};

  void SetUp() override { parts_.features = features_.get(); }
};

TEST_F(RunForNodesTest, FewNodesRunOverTheirFieldAndManyOverTheGraph) {
  const auto full = Run(*plan_, &few_, ReceptiveField::kNever);
  ASSERT_TRUE(full.ok());
  EXPECT_FALSE(full->receptive_field);
  EXPECT_EQ(full->computed_nodes, kNodes);
  EXPECT_EQ(recorder_.Count("receptive_field"), 0);
  const std::vector<float> expected = Gather(*full);
  for (const ReceptiveField mode : {ReceptiveField::kAuto, ReceptiveField::kAlways}) {
    const auto field = Run(*plan_, &few_, mode);
    ASSERT_TRUE(field.ok());
    EXPECT_TRUE(field->receptive_field);
    EXPECT_GE(field->computed_nodes, 3);
    EXPECT_LT(field->computed_nodes, kNodes / 4);
    EXPECT_EQ(Gather(*field), expected);
  }
  EXPECT_EQ(recorder_.Count("receptive_field"), 2);
  EXPECT_EQ(recorder_.Count("field_features"), 2);
  const auto many = Run(*plan_, &everyone_, ReceptiveField::kAuto);
  ASSERT_TRUE(many.ok());
  EXPECT_FALSE(many->receptive_field);
  EXPECT_EQ(recorder_.Count("receptive_field"), 3) << "searched, and given up";
  const std::vector<float> all = Gather(*many);
  const auto forced = Run(*plan_, &everyone_, ReceptiveField::kAlways);
  ASSERT_TRUE(forced.ok());
  EXPECT_TRUE(forced->receptive_field);
  EXPECT_EQ(forced->computed_nodes, kNodes);
  EXPECT_EQ(Gather(*forced), all);
}

TEST_F(RunForNodesTest, GatheringStopsWhereNobodyWaits) {
  const StopCheck stopped = [] { return Internal("stopped"); };
  for (const ReceptiveField mode : {ReceptiveField::kNever, ReceptiveField::kAlways}) {
    const auto computed = Run(*plan_, &few_, mode);
    ASSERT_TRUE(computed.ok()) << computed.status();
    RunParts parts = parts_;
    parts.stop = &stopped;
    EXPECT_EQ(GatherWanted(*computed, wanted_, parts).status().code(), StatusCode::kInternal);
  }
}

TEST_F(RunForNodesTest, AllNodesAreTheFullGraphWhateverIsAsked) {
  for (const ReceptiveField mode : {ReceptiveField::kAuto, ReceptiveField::kNever, ReceptiveField::kAlways}) {
    const auto all = Run(*plan_, nullptr, mode);
    ASSERT_TRUE(all.ok());
    EXPECT_FALSE(all->receptive_field);
    EXPECT_EQ(Gather(*all).size(), static_cast<size_t>(kNodes * 3));
  }
  EXPECT_EQ(recorder_.Count("receptive_field"), 0);
}

TEST_F(RunForNodesTest, AStepOverTheWholeGraphForbidsIt) {
  const auto full = Run(*whole_graph_, &few_, ReceptiveField::kAuto);
  ASSERT_TRUE(full.ok());
  EXPECT_FALSE(full->receptive_field);
  const auto forced = Run(*whole_graph_, &few_, ReceptiveField::kAlways);
  EXPECT_EQ(forced.status().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(DetailOf(forced.status()).has_value());
  EXPECT_EQ(DetailOf(forced.status())->reason, "NO_RECEPTIVE_FIELD");
  EXPECT_NE(std::string(forced.status().message()).find("l1 reads all nodes of the graph"), std::string::npos)
      << forced.status();
}

TEST_F(RunForNodesTest, RefusedMemoryMeansTheFullGraphOrAnError) {
  const std::vector<float> expected = Gather(*Run(*plan_, &few_, ReceptiveField::kNever));
  bool fitted = false;
  for (int64_t most = 0; !fitted; most += 2000) {
    account_.Allow(most);
    const auto computed = Run(*plan_, &few_, ReceptiveField::kAuto);
    ASSERT_TRUE(computed.ok()) << computed.status();
    fitted = computed->receptive_field;
    EXPECT_EQ(Gather(*computed), expected);
    if (fitted) break;
    EXPECT_EQ(Run(*plan_, &few_, ReceptiveField::kAlways).status().code(), StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace vicinal::testing

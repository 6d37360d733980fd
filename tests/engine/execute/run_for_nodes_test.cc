// SPDX-License-Identifier: Apache-2.0
// Which way a request for nodes is computed, what it reports, and what happens when a field's memory is refused.
#include "engine/execute/run_for_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/execute/selection.h"
#include "engine/memory/memory_budget.h"
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
  MemoryBudget budget_{int64_t{1} << 30};
  RunParts parts_ = {ThePlanBench().context.get(), nullptr, &workspace_, &no_stop_, &recorder_, &Clock::Real(), nullptr,
                     ThePlanBench().device.get(),  &budget_};

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

// The bits of a run with rows in place of stored ones are those of a run on a matrix that has them, in every form, over
// a field and over the graph; and the next run without them reads the stored ones again.
TEST_F(RunForNodesTest, RowsInPlaceOfStoredOnesGiveTheBitsOfAMatrixThatHasThem) {
  std::mt19937 random(9);
  Device& device = *ThePlanBench().device;
  ModelMaker maker(kCols);
  const ValueId hidden =
      maker.Activate(maker.Linear(maker.Propagate(0, Reduce::kSum), 12, true), ActivationKind::kRelu);
  const auto model = maker.Done(maker.Linear(maker.Propagate(hidden, Reduce::kMean), 3, true));
  // Some of the requested nodes, some of their surroundings, and nodes that no field reads.
  std::vector<int64_t> positions(everyone_.begin(), everyone_.end());
  std::shuffle(positions.begin(), positions.end(), random);
  positions.resize(600);
  for (const bool sparse : {false, true}) {
    const auto stored = UploadFeatures(RandomFeatures(kNodes, kCols, random), kCols, sparse, *graph_);
    const auto plan = *Plan::Build(RequestFor(model, graph_, *stored), ThePlanBench().registry, device);
    for (const bool sparse_rows : {false, true}) {
      const auto sent_matrix = UploadFeatures(RandomFeatures(kNodes, kCols, random), kCols, sparse_rows, *graph_);
      const HostFeatures all = *sent_matrix->ToHost(device);
      HostFeatures sent = all;
      if (sparse_rows) {
        sent.csr.row_ptr.resize(positions.size() + 1);
        sent.csr.col.resize(static_cast<size_t>(sent.csr.row_ptr.back()));
        if (!sent.csr.value.empty()) sent.csr.value.resize(sent.csr.col.size());
        sent.csr.num_rows = static_cast<int64_t>(positions.size());
      } else {
        sent.dense.resize(positions.size() * kCols);
      }
      sent.rows = static_cast<int64_t>(positions.size());
      const auto whole = *WithRows(*stored, sent, positions, device);
      const ReplacedRows replaced = InPlaceOfRows(*stored, sent, positions);
      EXPECT_EQ(replaced.entries, whole->entries());
      parts_.features = whole.get();
      const std::vector<float> expected = Gather(*Run(*plan, &few_, ReceptiveField::kNever));
      parts_.features = stored.get();
      const std::vector<float> before = Gather(*Run(*plan, &few_, ReceptiveField::kAlways));
      EXPECT_NE(before, expected);
      for (const ReceptiveField mode : {ReceptiveField::kAlways, ReceptiveField::kNever, ReceptiveField::kAuto}) {
        parts_.replaced = &replaced;
        const auto computed = Run(*plan, &few_, mode);
        ASSERT_TRUE(computed.ok()) << computed.status();
        EXPECT_EQ(computed->receptive_field, mode != ReceptiveField::kNever);
        EXPECT_EQ(computed->computed_nodes == kNodes, mode == ReceptiveField::kNever);
        EXPECT_EQ(Gather(*computed), expected);
        parts_.replaced = nullptr;
        EXPECT_EQ(Gather(*Run(*plan, &few_, mode)), before);
      }
    }
  }
}

// Only a run over the full graph needs memory for all rows.
TEST_F(RunForNodesTest, RowsInPlaceOfStoredOnesAreCopiedForTheFullGraphAlone) {
  constexpr int64_t kMany = 40'000;  // of features above what is not worth counting
  std::mt19937 random(10);
  graph_ = PrepareEdges(RandomEdges(kMany, kMany, false, random), OrderKind::kNone);
  features_ = UploadFeatures(RandomFeatures(kMany, kCols, random), kCols, false, *graph_);
  parts_.features = features_.get();
  ModelMaker maker(kCols);
  const auto plan = Build(maker.Done(maker.Linear(maker.Propagate(0, Reduce::kMean), 3, true)));
  HostFeatures sent;
  sent.rows = 1;
  sent.cols = kCols;
  sent.dense.assign(kCols, 1.0f);
  const ReplacedRows replaced = InPlaceOfRows(*features_, sent, {700});
  parts_.replaced = &replaced;
  MemoryBudget small(features_->size_bytes() - 1);
  parts_.budget = &small;
  EXPECT_TRUE(Run(*plan, &few_, ReceptiveField::kAlways).ok());
  EXPECT_FALSE(Run(*plan, &few_, ReceptiveField::kNever).ok());
  parts_.budget = &budget_;
  EXPECT_TRUE(Run(*plan, &few_, ReceptiveField::kNever).ok());
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

// The CPU's context, but it ranks rows, as a GPU's does: by halves, so that its numbers are nobody else's.
class RankingContext final : public DeviceContext, public ClassRanker {
 public:
  explicit RankingContext(DeviceContext& inner) : inner_(inner) {}
  Device& device() override { return inner_.device(); }
  ThreadPool* thread_pool() override { return inner_.thread_pool(); }
  Status Synchronize() override { return inner_.Synchronize(); }
  Status CopyRowsToHost(float* host, ConstMatrixView src, const int64_t* rows, int64_t count) override {
    return inner_.CopyRowsToHost(host, src, rows, count);
  }
  bool RanksClasses(int64_t, int64_t top_k) const override { return top_k <= 2; }
  Status ClassRowsToHost(const ClassRowsJob& job) override {
    const int64_t classes = job.logits.cols;
    for (int64_t i = 0; i < job.count; ++i) {
      const float* const row = job.logits.row(job.rows[i]);
      std::vector<int32_t> order(static_cast<size_t>(classes));
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [row](int32_t a, int32_t b) { return row[a] > row[b]; });
      for (int64_t k = 0; k < job.top_k; ++k) {
        job.classes[i * job.top_k + k] = order[k];
        job.scores[i * job.top_k + k] = row[order[k]] / 2;
      }
      for (int64_t c = 0; c < classes; ++c) {
        if (job.probabilities != nullptr) job.probabilities[i * classes + c] = row[c] / 2;
        if (job.values != nullptr) job.values[i * classes + c] = row[c];
      }
    }
    return OkStatus();
  }

 private:
  DeviceContext& inner_;
};

TEST_F(RunForNodesTest, ADeviceRanksTheRowsThatAreWanted) {
  RankingContext context(*ThePlanBench().context);
  const std::vector<int64_t> backwards(everyone_.rbegin(), everyone_.rend());
  for (const auto way : {ReceptiveField::kNever, ReceptiveField::kAlways}) {
    const auto computed = Run(*plan_, &backwards, way);
    ASSERT_TRUE(computed.ok());
    const std::vector<float> logits = Gather(*computed);
    RankedRows ranked;
    std::vector<float> values;
    ASSERT_TRUE(RankWanted(context, *computed, wanted_, {2, true, true}, false, parts_, &ranked, &values).ok());
    EXPECT_EQ(values, logits);
    EXPECT_EQ(ranked.top_k, 2);
    ASSERT_EQ(ranked.probabilities.size(), logits.size());
    for (size_t i = 0; i < logits.size(); ++i) ASSERT_EQ(ranked.probabilities[i], logits[i] / 2);
    for (size_t r = 0; r < backwards.size(); ++r) {
      const float first = logits[3 * r + ranked.classes[2 * r]], second = logits[3 * r + ranked.classes[2 * r + 1]];
      ASSERT_EQ(first, *std::max_element(logits.begin() + 3 * r, logits.begin() + 3 * r + 3));
      ASSERT_GE(first, second);
      ASSERT_EQ(ranked.scores[2 * r], first / 2);
      ASSERT_EQ(ranked.scores[2 * r + 1], second / 2);
    }
  }
}

TEST_F(RunForNodesTest, FewRowsAndLongSortsAreLeftToTheHost) {
  RankingContext context(*ThePlanBench().context);
  const auto computed = Run(*plan_, nullptr, ReceptiveField::kNever);
  ASSERT_TRUE(computed.ok());
  EXPECT_EQ(RankerFor(*computed, wanted_, {2}, context), &context);
  EXPECT_EQ(RankerFor(*computed, wanted_, {3}, context), nullptr);
  EXPECT_EQ(RankerFor(*computed, wanted_, {2}, *ThePlanBench().context), nullptr);
  wanted_.ids = &few_;
  EXPECT_EQ(RankerFor(*computed, wanted_, {2}, context), nullptr);
}

TEST_F(RunForNodesTest, RankingStopsWhereNobodyWaits) {
  RankingContext context(*ThePlanBench().context);
  const auto computed = Run(*plan_, nullptr, ReceptiveField::kNever);
  ASSERT_TRUE(computed.ok());
  const StopCheck stopped = [] { return Internal("nobody waits"); };
  parts_.stop = &stopped;
  RankedRows ranked;
  std::vector<float> values;
  EXPECT_EQ(RankWanted(context, *computed, wanted_, {1}, false, parts_, &ranked, &values).code(),
            StatusCode::kInternal);
  EXPECT_TRUE(ranked.classes.empty());
}

}  // namespace
}  // namespace vicinal::testing

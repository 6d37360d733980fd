// SPDX-License-Identifier: Apache-2.0
// A plan over the receptive field of some nodes gives the bits that it gives over the full graph: every kind of layer,
// every kernel forced in turn, dense and sparse features, all orders, one run after the other in the same memory.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/error.h"
#include "engine/tune/work.h"
#include "tests/engine/plan/plan_testing.h"
#include "tests/engine/plan/receptive_field/receptive_field_models.h"
#include "tests/engine/plan/receptive_field/receptive_field_testing.h"

namespace vicinal::testing {
namespace {

// A plan, its run over the full graph, and runs over fields to compare with it.
class ReceptiveFieldRuns {
 public:
  ReceptiveFieldRuns(const PlanRequest& request, const FeatureMatrix& features) : features_(features) {
    const auto plan = Plan::Build(request, ThePlanBench().registry, *ThePlanBench().device);
    EXPECT_TRUE(plan.ok()) << plan.status();
    plan_ = *plan;
    permutation_ = &request.graph->parts().permutation;
    expected_ = RunPlan(*plan_, features, *request.graph, false);
  }

  void ExpectSameBits(const std::vector<int64_t>& ids, const std::string& what) {
    PlanBench& bench = ThePlanBench();
    const auto found = workspace_.finder.Find(plan_->field(), ids, *permutation_, ReceptiveFieldFinder::kNoLimit, 2);
    ASSERT_TRUE(found.ok() && *found) << what;
    const auto rows = plan_->RunReceptiveField(*bench.context, features_, nullptr, &workspace_, nullptr,
                                               StatsSink::Null(), Clock::Real());
    ASSERT_TRUE(rows.ok()) << what << rows.status();
    for (const int64_t id : ids) {
      const float* got = rows->row(workspace_.finder.RowOf(permutation_->ToNew(static_cast<NodeId>(id))));
      ASSERT_EQ(0, std::memcmp(got, expected_.data() + id * rows->cols, rows->cols * sizeof(float)))
          << what << ", node " << id;
    }
  }
  void ExpectFullGraphSameBits(const PreparedGraph& graph, const std::string& what) {
    EXPECT_EQ(RunPlan(*plan_, features_, graph, false), expected_) << what;
  }
  const Plan& plan() const { return *plan_; }
  const std::vector<float>& over_the_full_graph() const { return expected_; }

 private:
  const FeatureMatrix& features_;
  std::shared_ptr<Plan> plan_;
  const Permutation* permutation_;
  std::vector<float> expected_;
  TestAccount account_;
  ReceptiveFieldWorkspace workspace_{ThePlanBench().device.get(), account_.purpose()};
};

class ReceptiveFieldRunModels : public ::testing::TestWithParam<size_t> {};

TEST_P(ReceptiveFieldRunModels, SameBitsAsTheFullGraph) {
  constexpr int64_t kNodes = 300, kCols = 24;
  const ReceptiveFieldModel& test = ReceptiveFieldModels()[GetParam()];
  ModelMaker maker(kCols, static_cast<uint32_t>(GetParam()) + 1);
  const auto model = maker.Done(test.layers(maker));
  std::mt19937 random(static_cast<uint32_t>(GetParam()) + 7);
  const EdgeList edges = RandomEdges(kNodes, 4 * kNodes, test.weighted, random);
  const std::vector<double> x = RandomFeatures(kNodes, kCols, random);
  std::vector<int64_t> everyone(kNodes);
  std::iota(everyone.begin(), everyone.end(), 0);
  for (const OrderKind order : {OrderKind::kNone, OrderKind::kRcm}) {
    const auto graph = PrepareEdges(edges, order);
    for (const bool sparse : {false, true}) {
      const auto features = UploadFeatures(x, kCols, sparse, *graph);
      std::vector<ForcedKernels> all_forced = {{}};
      ThePlanBench().registry.ForEachOperation([&](const auto& operation) {
        for (const auto& kernel : operation.kernels()) {
          all_forced.push_back({{std::string(operation.operation()), std::string(kernel->kernel().name())}});
        }
      });
      for (const ForcedKernels& forced : all_forced) {
        const PlanRequest request = RequestFor(model, graph, *features, forced);
        // A kernel that refuses the problem cannot be forced; plan_test.cc knows which these are.
        if (!Plan::Build(request, ThePlanBench().registry, *ThePlanBench().device).ok()) continue;
        const std::string what =
            absl::StrCat(test.name, sparse ? ", sparse" : ", dense", ", order ", static_cast<int>(order), ", ",
                         forced.empty() ? "" : forced.begin()->first + "=" + forced.begin()->second);
        ReceptiveFieldRuns runs(request, *features);
        ASSERT_EQ(runs.plan().field().refusal, "") << what;
        for (const size_t count : {1, 2, 9, 120}) {
          std::vector<int64_t> ids;
          while (ids.size() < count) ids.push_back(static_cast<int64_t>(random() % kNodes));
          runs.ExpectSameBits(ids, what);
        }
        runs.ExpectSameBits({kNodes - 1, 3, 3, kNodes - 1}, what + ", repeated and isolated");
        runs.ExpectFullGraphSameBits(*graph, what);
        runs.ExpectSameBits(everyone, what + ", everyone");
        runs.ExpectSameBits({5}, what + ", one after all");
      }
    }
  }
}

// What tuning could choose for `key`: every candidate of every kernel that it may take, and configurations that only a
// larger graph would try: 16 for each parameter alone, and for all.
std::vector<KernelSetting> ChoicesOf(const TuningKey& key, const PreparedGraph& graph) {
  std::vector<KernelSetting> choices;
  WithProblem(ThePlanBench().registry, key, graph.num_nodes(), graph.num_nodes(), graph.num_edges(),
              [&choices](const auto& operation, const auto& problem) {
                for (const auto& entry : operation.kernels()) {
                  const auto& kernel = entry->kernel();
                  if (kernel.fallback_only() || !kernel.WhyUnsupported(problem).empty()) continue;
                  std::vector<KernelConfig> configs = kernel.Candidates(problem);
                  KernelConfig all;
                  for (size_t p = 0; p < kernel.ParameterNames().size(); ++p) {
                    KernelConfig one;
                    one.values[p] = all.values[p] = 16;
                    configs.push_back(one);
                  }
                  configs.push_back(all);
                  for (const KernelConfig& config : configs) choices.push_back({std::string(kernel.name()), config});
                }
              });
  return choices;
}

void Choose(const TuningKey& key, const KernelSetting& setting, const PreparedGraph& graph) {
  TuningRecord record;
  record.key = key;
  record.state = TuningState::kForced;
  record.candidates.resize(1);
  record.candidates[0].setting = setting;
  graph.tuning().Put(std::move(record));
}

TEST_P(ReceptiveFieldRunModels, SameBitsWhateverIsTuned) {
  constexpr int64_t kNodes = 300, kCols = 24;
  const ReceptiveFieldModel& test = ReceptiveFieldModels()[GetParam()];
  ModelMaker maker(kCols, static_cast<uint32_t>(GetParam()) + 1);
  const auto model = maker.Done(test.layers(maker));
  std::mt19937 random(static_cast<uint32_t>(GetParam()) + 11);
  const auto graph = PrepareEdges(RandomEdges(kNodes, 4 * kNodes, test.weighted, random), OrderKind::kRcm);
  const std::vector<double> x = RandomFeatures(kNodes, kCols, random);
  for (const bool sparse : {false, true}) {
    const auto features = UploadFeatures(x, kCols, sparse, *graph);
    const PlanRequest request = RequestFor(model, graph, *features);
    for (const TuningRecord& record : graph->tuning().Records()) graph->tuning().Reset(record.key);
    const ReceptiveFieldRuns untuned(request, *features);
    std::vector<std::pair<TuningKey, std::vector<KernelSetting>>> work;
    size_t most = 0;
    for (const PlanStepInfo& step : untuned.plan().Steps()) {
      EXPECT_FALSE(step.tuned);
      if (!step.tuning_key.has_value()) continue;
      work.emplace_back(*step.tuning_key, ChoicesOf(*step.tuning_key, *graph));
      ASSERT_GT(work.back().second.size(), 1u) << Describe(*step.tuning_key);
      most = std::max(most, work.back().second.size());
    }
    for (size_t turn = 0; turn < most; ++turn) {
      std::string what = absl::StrCat(test.name, sparse ? ", sparse" : ", dense");
      for (const auto& [key, choices] : work) {
        const KernelSetting& setting = choices[turn % choices.size()];
        Choose(key, setting, *graph);
        absl::StrAppend(&what, ", ", setting.kernel, " ", absl::StrJoin(setting.config.values, "/"));
      }
      ReceptiveFieldRuns tuned(request, *features);
      for (const PlanStepInfo& step : tuned.plan().Steps()) EXPECT_EQ(step.tuned, step.tuning_key.has_value()) << what;
      EXPECT_EQ(tuned.over_the_full_graph(), untuned.over_the_full_graph()) << what;
      for (const size_t count : {1, 9, 120}) {
        std::vector<int64_t> ids;
        while (ids.size() < count) ids.push_back(static_cast<int64_t>(random() % kNodes));
        tuned.ExpectSameBits(ids, what);
      }
      tuned.ExpectFullGraphSameBits(*graph, what);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ReceptiveFieldRunModels, ::testing::Range(size_t{0}, ReceptiveFieldModels().size()),
                         [](const auto& info) { return ReceptiveFieldModels()[info.param].name; });

TEST(ReceptiveFieldRun, OtherFeaturesThanThePlanWasMadeWith) {
  constexpr int64_t kNodes = 80, kCols = 12;
  ModelMaker maker(kCols);
  const auto model = maker.Done(Sage(maker, Relu(maker, Sage(maker, 0, 8, Reduce::kMax)), 3, Reduce::kMean));
  std::mt19937 random(2);
  const auto graph = PrepareEdges(RandomEdges(kNodes, 300, false, random), OrderKind::kRcm);
  const auto sparse = UploadFeatures(RandomFeatures(kNodes, kCols, random), kCols, true, *graph);
  const std::vector<double> full(kNodes * kCols, 0.5);
  const auto more = UploadFeatures(full, kCols, true, *graph);
  ReceptiveFieldRuns runs(RequestFor(model, graph, *sparse), *more);
  runs.ExpectSameBits({1, 2, 3}, "more nonzeros");
}

TEST(ReceptiveFieldRun, IsCountedApartFromRunsOverTheFullGraph) {
  std::mt19937 random(3);
  const auto graph = PrepareEdges(RandomEdges(40, 150, false, random), OrderKind::kRcm);
  const auto features = UploadFeatures(RandomFeatures(40, 6, random), 6, false, *graph);
  ModelMaker maker(6);
  const auto model = maker.Done(Gin(maker, Relu(maker, Gin(maker, 0, 8)), 4));
  ReceptiveFieldRuns runs(RequestFor(model, graph, *features), *features);
  for (const int64_t node : {3, 17, 39}) runs.ExpectSameBits({node}, "one node");
  for (const PlanStepInfo& step : runs.plan().Steps()) {
    EXPECT_EQ(step.run_count, 1) << step.description;
    EXPECT_EQ(step.receptive_field_run_count, 3) << step.description;
  }
}

TEST(ReceptiveFieldRun, StepsOverTheWholeGraphRefuseWithTheirName) {
  std::mt19937 random(2);
  const EdgeList edges = RandomEdges(40, 150, false, random);
  const auto refusal = [&](const std::shared_ptr<const Model>& model, std::vector<int64_t> segments) {
    const auto graph = PrepareEdges(edges, OrderKind::kNone, std::move(segments));
    const auto features = UploadFeatures(RandomFeatures(40, 6, random), 6, false, *graph);
    const auto plan = Plan::Build(RequestFor(model, graph, *features), ThePlanBench().registry, *ThePlanBench().device);
    EXPECT_TRUE(plan.ok()) << plan.status();
    const std::string why = (*plan)->field().refusal;
    EXPECT_NE((*plan)->Decisions().back().find(why), std::string::npos) << "Explain tells";
    return why;
  };
  ModelMaker maker(6);
  const ValueId norm = maker.LayerNorm(maker.Linear(0, 4, true), false);
  EXPECT_EQ(refusal(maker.Done(maker.Propagate(norm, Reduce::kMax)), {}), "l1 reads all nodes of the graph");
  ModelMaker plain(6);
  const auto model = plain.Done(plain.Propagate(plain.Linear(0, 4, true), Reduce::kSum));
  EXPECT_EQ(refusal(model, {}), "");
  EXPECT_EQ(refusal(model, {0, 40}), "batches of small graphs are computed whole");
  ModelMaker pooled(6);
  const auto readout = pooled.Done(pooled.Readout(pooled.Propagate(0, Reduce::kMax), Reduce::kMean));
  EXPECT_EQ(refusal(readout, {}), "l1 reads all nodes of the graph");
}

TEST(ReceptiveFieldRun, StopsBetweenStepsAndRunsAsEverAfterwards) {
  std::mt19937 random(3);
  const auto graph = PrepareEdges(RandomEdges(40, 150, false, random), OrderKind::kRcm);
  const auto features = UploadFeatures(RandomFeatures(40, 6, random), 6, false, *graph);
  ModelMaker maker(6);
  const auto model = maker.Done(Gin(maker, Relu(maker, Gin(maker, 0, 8)), 4));
  const auto plan = *Plan::Build(RequestFor(model, graph, *features), ThePlanBench().registry, *ThePlanBench().device);
  const std::vector<float> expected = RunPlan(*plan, *features, *graph, false);
  TestAccount account;
  ReceptiveFieldWorkspace workspace(ThePlanBench().device.get(), account.purpose());
  ASSERT_TRUE(
      *workspace.finder.Find(plan->field(), {4, 7}, graph->parts().permutation, ReceptiveFieldFinder::kNoLimit, 1));
  int asked = 0;
  const StopCheck stop = [&asked] { return ++asked <= 2 ? OkStatus() : absl::CancelledError("gone"); };
  const auto stopped = plan->RunReceptiveField(*ThePlanBench().context, *features, nullptr, &workspace, stop,
                                               StatsSink::Null(), Clock::Real());
  EXPECT_EQ(stopped.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(RunPlan(*plan, *features, *graph, false), expected);
  account.Allow(account.held());
  std::vector<int64_t> everyone(40);
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto refused =
      workspace.finder.Find(plan->field(), everyone, graph->parts().permutation, ReceptiveFieldFinder::kNoLimit, 1);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(RunPlan(*plan, *features, *graph, false), expected);
}

}  // namespace
}  // namespace vicinal::testing

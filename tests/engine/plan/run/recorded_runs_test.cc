// SPDX-License-Identifier: Apache-2.0
// Plans in a context that only launches: the CPU's behind one that records launches and replays them. What is run one
// by one, what is replayed, what is counted and timed, and what happens where recording is refused.
#include <functional>
#include <map>
#include <string>

#include "engine/base/error.h"
#include "tests/engine/counting_new.h"
#include "tests/engine/plan/plan_testing.h"

namespace vicinal::testing {
namespace {

class FakeRecording final : public Recording {
 public:
  FakeRecording(const DeviceContext* context, std::function<Status()> launch)
      : context(context), launch(std::move(launch)) {}
  const DeviceContext* const context;
  const std::function<Status()> launch;
};

// Every step takes a millisecond.
class FakeTimer final : public DeviceTimer {
 public:
  Status Mark(int) override { return OkStatus(); }
  StatusOr<double> Seconds(int from, int to) const override { return 1e-3 * (to - from); }
};

class RecordingContext final : public DeviceContext {
 public:
  Device& device() override { return cpu_->device(); }
  ThreadPool* thread_pool() override { return cpu_->thread_pool(); }
  Status Synchronize() override {
    ++synchronized;
    return OkStatus();
  }
  Status CopyRowsToHost(float* host, ConstMatrixView src, const int64_t* rows, int64_t count) override {
    return cpu_->CopyRowsToHost(host, src, rows, count);
  }
  bool launches_only() const override { return true; }
  StatusOr<std::unique_ptr<Recording>> Record(const std::function<Status()>& launch) override {
    ++records;
    if (refuses) return FailedPrecondition(kCannotRecordReason, "a kernel asks the host");
    return std::unique_ptr<Recording>(std::make_unique<FakeRecording>(this, launch));
  }
  Status Replay(const Recording& recording) override {
    const auto& fake = static_cast<const FakeRecording&>(recording);
    if (fake.context != this) return FailedPrecondition(kCannotRecordReason, "another's");
    ++replays;
    return fake.launch();
  }
  StatusOr<std::unique_ptr<DeviceTimer>> MakeTimer(int) override {
    return std::unique_ptr<DeviceTimer>(std::make_unique<FakeTimer>());
  }

  bool refuses = false;
  int records = 0, replays = 0, synchronized = 0;

 private:
  const std::unique_ptr<DeviceContext> cpu_ = ThePlanBench().device->CreateContext();
};

class PhaseSums final : public StatsSink {
 public:
  void StageSeconds(std::string_view, double) override {}
  void PhaseSeconds(std::string_view phase, double seconds) override { sums[std::string(phase)] += seconds; }
  void QueueDepth(int64_t) override {}
  std::map<std::string, double> sums;
};

class RecordedRunsTest : public ::testing::Test {
 protected:
  static constexpr int64_t kNodes = 200, kCols = 8;

  RecordedRunsTest() {
    std::mt19937 random(6);
    graph_ = PrepareEdges(RandomEdges(kNodes, 900, false, random), OrderKind::kNone);
    features_ = UploadFeatures(RandomFeatures(kNodes, kCols, random), kCols, false, *graph_);
    others_ = UploadFeatures(RandomFeatures(kNodes, kCols, random), kCols, false, *graph_);
    ModelMaker maker(kCols);
    const ValueId hidden =
        maker.Activate(maker.Propagate(maker.Linear(0, 6, true), Reduce::kSum), ActivationKind::kRelu);
    model_ = maker.Done(maker.Propagate(maker.Linear(hidden, 3, true), Reduce::kMean));
    plan_ = *Plan::Build(RequestFor(model_, graph_, *features_), ThePlanBench().registry, *ThePlanBench().device);
    expected_ = RunPlan(*plan_, *features_, *graph_, false);
    others_expected_ = RunPlan(*plan_, *others_, *graph_, false);
  }

  std::vector<float> Run(DeviceContext& context, const FeatureMatrix& features, const StopCheck& stop = nullptr) {
    const auto view = plan_->Run(context, features, stop, stats_, Clock::Real());
    std::vector<float> rows;
    for (int64_t r = 0; view.ok() && r < view->rows; ++r)
      rows.insert(rows.end(), view->row(r), view->row(r) + view->cols);
    return rows;
  }
  int64_t Launches() const {
    int64_t launches = 0;
    ThePlanBench().registry.ForEachOperation([&](const auto& operation) {
      for (const auto& kernel : operation.kernels()) launches += kernel->launches();
    });
    return launches;
  }

  std::shared_ptr<const PreparedGraph> graph_;
  std::shared_ptr<const FeatureMatrix> features_, others_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<Plan> plan_;
  std::vector<float> expected_, others_expected_;
  RecordingContext context_;
  PhaseSums stats_;
};

TEST_F(RecordedRunsTest, TheFirstRunIsLaunchedOneByOneAndLaterOnesReplayed) {
  const int64_t steps = static_cast<int64_t>(plan_->Steps().size());
  const int64_t runs_before = plan_->Steps()[0].run_count;
  for (int run = 1; run <= 5; ++run) {
    const int64_t before = Launches();
    EXPECT_EQ(Run(context_, *features_), expected_) << run;
    EXPECT_EQ(Launches() - before, steps) << "counted once each, in run " << run;
    EXPECT_EQ(plan_->Steps()[0].run_count, runs_before + run);
    EXPECT_EQ(context_.synchronized, run);
    EXPECT_EQ(context_.replays, run - 1);
  }
  // One with marks, for the second run, and one without.
  EXPECT_EQ(context_.records, 2);
}

TEST_F(RecordedRunsTest, SomeRunsAreTimedAndStandForAll) {
  plan_ = *Plan::Build(RequestFor(model_, graph_, *features_), ThePlanBench().registry, *ThePlanBench().device);
  Run(context_, *features_);
  EXPECT_TRUE(stats_.sums.empty());
  EXPECT_EQ(plan_->Steps()[0].total_seconds, 0.0) << "not known yet";
  for (int run = 2; run <= 1100; ++run) Run(context_, *features_);
  const std::vector<PlanStepInfo> steps = plan_->Steps();
  std::map<std::string, double> expected;
  for (const PlanStepInfo& step : steps) {
    EXPECT_EQ(step.run_count, 1100);
    EXPECT_NEAR(step.total_seconds, 1.1, 1e-6);
    expected[step.operation] += 2e-3;  // of the second run and another one
  }
  ASSERT_EQ(stats_.sums.size(), expected.size());
  for (const auto& [operation, seconds] : expected) EXPECT_NEAR(stats_.sums[operation], seconds, 1e-9) << operation;
}

TEST_F(RecordedRunsTest, QueuedRunsAreWaitedForTogether) {
  const int64_t runs_before = plan_->Steps()[0].run_count;
  // The first ever is launched one by one, and waited for.
  ASSERT_TRUE(plan_->RunQueued(context_, *features_, 5).ok());
  EXPECT_EQ(context_.records, 1);
  EXPECT_EQ(context_.replays, 4);
  EXPECT_EQ(context_.synchronized, 2);
  ASSERT_TRUE(plan_->RunQueued(context_, *features_, 7).ok());
  EXPECT_EQ(context_.records, 1);
  EXPECT_EQ(context_.replays, 11);
  EXPECT_EQ(context_.synchronized, 3);
  EXPECT_EQ(plan_->Steps()[0].run_count, runs_before + 12);
  EXPECT_EQ(Run(context_, *features_), expected_);
}

TEST_F(RecordedRunsTest, QueuedRunsWithoutRecordingsAreLaunched) {
  context_.refuses = true;
  const int64_t runs_before = plan_->Steps()[0].run_count;
  ASSERT_TRUE(plan_->RunQueued(context_, *features_, 5).ok());
  EXPECT_EQ(context_.records, 1) << "asked once";
  EXPECT_EQ(context_.replays, 0);
  EXPECT_EQ(plan_->Steps()[0].run_count, runs_before + 5);
}

TEST_F(RecordedRunsTest, EachFeatureMatrixHasItsOwn) {
  for (int run = 0; run < 6; ++run) {
    EXPECT_EQ(Run(context_, *features_), expected_);
    EXPECT_EQ(Run(context_, *others_), others_expected_);
  }
  EXPECT_EQ(context_.records, 3) << "one of them with marks";
  // More than are kept: the least recently used go, and nothing else changes.
  std::mt19937 random(8);
  for (int i = 0; i < 10; ++i) {
    const auto another = UploadFeatures(RandomFeatures(kNodes, kCols, random), kCols, false, *graph_);
    const std::vector<float> expected = RunPlan(*plan_, *another, *graph_, false);
    for (int run = 0; run < 3; ++run) EXPECT_EQ(Run(context_, *another), expected);
  }
  EXPECT_EQ(Run(context_, *features_), expected_);
}

// Requests that bring their features come at new addresses each: what is run once takes nobody's recording.
TEST_F(RecordedRunsTest, FeaturesThatPassLeaveTheStoredOnesTheirRecording) {
  for (int run = 0; run < 3; ++run) ASSERT_EQ(Run(context_, *features_), expected_);
  std::mt19937 random(9);
  // All alive at once, so that no two have the same address.
  std::vector<std::shared_ptr<const FeatureMatrix>> passing;
  for (int i = 0; i < 40; ++i) {
    passing.push_back(UploadFeatures(RandomFeatures(kNodes, kCols, random), kCols, false, *graph_));
    Run(context_, *passing.back());
  }
  const int records = context_.records, replays = context_.replays;
  EXPECT_EQ(Run(context_, *features_), expected_);
  EXPECT_EQ(context_.records, records);
  EXPECT_EQ(context_.replays, replays + 1);
  // One that passed lately and comes again is recorded; of those long ago nothing is known any more.
  Run(context_, *passing.back());
  EXPECT_EQ(context_.records, records + 1);
  EXPECT_EQ(context_.replays, replays + 2);
  Run(context_, *passing.front());
  EXPECT_EQ(context_.records, records + 1);
  EXPECT_EQ(context_.replays, replays + 2);
}

TEST_F(RecordedRunsTest, ContextsThatTakeTurnsRecordOnceEach) {
  for (int run = 0; run < 4; ++run) Run(context_, *features_);
  const int records = context_.records, replays = context_.replays;
  RecordingContext other;
  for (int run = 1; run <= 3; ++run) {
    EXPECT_EQ(Run(other, *features_), expected_);
    EXPECT_EQ(Run(context_, *features_), expected_);
    EXPECT_EQ(other.replays, run);
    EXPECT_EQ(context_.replays, replays + run);
  }
  EXPECT_EQ(other.records, 1);
  EXPECT_EQ(context_.records, records);
  // A third one takes the place of the first.
  RecordingContext third;
  EXPECT_EQ(Run(third, *features_), expected_);
  EXPECT_EQ(Run(other, *features_), expected_);
  EXPECT_EQ(other.records, 1);
  EXPECT_EQ(Run(context_, *features_), expected_);
  EXPECT_EQ(context_.records, records + 1);
}

TEST_F(RecordedRunsTest, WhereRecordingIsRefusedStepsAreLaunchedOneByOne) {
  context_.refuses = true;
  const size_t decisions = plan_->Decisions().size();
  const int64_t runs_before = plan_->Steps()[0].run_count;
  for (int run = 0; run < 5; ++run) EXPECT_EQ(Run(context_, *features_), expected_);
  EXPECT_EQ(context_.records, 1) << "asked once";
  EXPECT_EQ(context_.replays, 0);
  EXPECT_EQ(plan_->Steps()[0].run_count, runs_before + 5);
  ASSERT_EQ(plan_->Decisions().size(), decisions + 1);
  EXPECT_EQ(plan_->Decisions().back(), "steps are launched one by one: a kernel asks the host");
  EXPECT_GT(stats_.sums["aggregate"], 0.0) << "timed all the same";
}

TEST_F(RecordedRunsTest, FeaturesOfEdgesThatComeWithRunsAreTheirOwn) {
  std::mt19937 random(8);
  const EdgeList edges = RandomEdges(kNodes, 900, false, random);
  ModelMaker maker(kCols);
  const auto model = maker.Done(maker.EdgeSum(maker.Linear(0, 6, true), Reduce::kSum, true));
  // The oracle of each set: a graph with these features of its own.
  std::vector<std::shared_ptr<const PreparedGraph>> graphs;
  std::vector<std::shared_ptr<const EdgeMatrix>> sets;
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < 2; ++i) {
    std::vector<float> rows = EdgeFeaturesOf(edges);
    for (float& value : rows) value += static_cast<float>(i);
    graphs.push_back(PrepareEdges(edges, OrderKind::kNone, {}, ThePlanBench().device.get(), &rows));
    const PreparedGraph::Parts& parts = graphs.back()->parts();
    sets.push_back(EdgeMatrix::Make(parts.csr, std::make_shared<const std::vector<float>>(parts.edge_attr),
                                    kEdgeFeatures, *ThePlanBench().device)
                       .value());
    const auto own =
        Plan::Build(RequestFor(model, graphs.back(), *features_), ThePlanBench().registry, *ThePlanBench().device);
    ASSERT_TRUE(own.ok()) << own.status();
    expected.push_back(RunPlan(**own, *features_, *graphs.back(), false));
  }
  ASSERT_NE(expected[0], expected[1]);
  PlanRequest request = RequestFor(model, graphs[0], *features_);
  request.edge_set_cols = kEdgeFeatures;
  plan_ = Plan::Build(request, ThePlanBench().registry, *ThePlanBench().device).value();
  const auto run = [&](int set) {
    const auto view =
        plan_->Run(context_, {*features_, sets[static_cast<size_t>(set)].get()}, nullptr, stats_, Clock::Real());
    std::vector<float> rows;
    for (int64_t r = 0; view.ok() && r < view->rows; ++r)
      rows.insert(rows.end(), view->row(r), view->row(r) + view->cols);
    return rows;
  };
  for (const int set : {0, 1, 0, 1, 1, 0, 0, 1}) EXPECT_EQ(run(set), expected[static_cast<size_t>(set)]) << set;
  EXPECT_GT(context_.replays, 3);
  // A plan for sets does not run without one.
  EXPECT_EQ(plan_->Run(context_, *features_, nullptr, stats_, Clock::Real()).status().code(), StatusCode::kInternal);
  request.edge_set_cols = kEdgeFeatures + 1;
  EXPECT_EQ(DetailOf(Plan::Build(request, ThePlanBench().registry, *ThePlanBench().device).status())->reason,
            "EDGE_ATTR_WIDTH");
}

TEST_F(RecordedRunsTest, AStoppedRunLeavesNothingBehind) {
  int asked = 0;
  const StopCheck stop = [&asked] { return ++asked <= 2 ? OkStatus() : absl::CancelledError("gone"); };
  EXPECT_TRUE(Run(context_, *features_, stop).empty());
  EXPECT_EQ(context_.records, 0);
  for (int run = 0; run < 3; ++run) EXPECT_EQ(Run(context_, *features_), expected_);
  // A replay is stopped before it begins.
  const int replays = context_.replays;
  EXPECT_TRUE(Run(context_, *features_, [] { return absl::CancelledError("gone"); }).empty());
  EXPECT_EQ(context_.replays, replays);
}

TEST_F(RecordedRunsTest, ReplaysAllocateNothing) {
  const StopCheck stop = [] { return OkStatus(); };
  for (int run = 0; run < 3; ++run)
    ASSERT_TRUE(plan_->Run(context_, *features_, stop, StatsSink::Null(), Clock::Real()).ok());
  const int64_t before = allocations.load();
  ASSERT_TRUE(plan_->Run(context_, *features_, stop, StatsSink::Null(), Clock::Real()).ok());
  EXPECT_EQ(allocations.load() - before, 0);
}

}  // namespace
}  // namespace vicinal::testing

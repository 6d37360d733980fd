// SPDX-License-Identifier: Apache-2.0
// What tests of tuning through the engine's door share: times of our own, so that what wins is what the test says and
// no test waits for a clock; a graph worth tuning; and the fixture.
#ifndef VICINAL_TESTS_ENGINE_TUNING_TUNING_TESTING_H_
#define VICINAL_TESTS_ENGINE_TUNING_TUNING_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"
#include "tests/engine/api/small_world.h"

namespace vicinal::testing {

// Runs what it is given and says how long that took.
class ToldMeter final : public RunMeter {
 public:
  using Times = std::function<RunSample(const TuningKey& key, const KernelSetting& setting)>;
  explicit ToldMeter(Times times) : times_(std::move(times)) {}
  StatusOr<RunSample> Measure(const TuningKey& key, const KernelSetting& setting,
                              const std::function<Status()>& run) override {
    VICINAL_RETURN_IF_ERROR(run());
    return times_(key, setting);
  }

 private:
  const Times times_;
};

// A graph so large that kernels have more than one configuration for it, that is, whose rows of 8 columns lie beyond
// half a mebibyte, and a GCN 12 -> 16 -> 8, which aggregates 12 and 8 columns.
inline constexpr int64_t kNodes = 20'000, kColumns = 12;
inline constexpr char kGcn[] = R"({
  "format": "vicinal.model/1", "in_channels": 12,
  "layers": [
    {"name": "conv1", "type": "GCNConv", "args": {"in_channels": 12, "out_channels": 16}},
    {"name": "act", "type": "ReLU"},
    {"name": "conv2", "type": "GCNConv", "args": {"in_channels": 16, "out_channels": 8}}
  ]})";

inline GraphSource LargeGraph() {
  constexpr int64_t kEdges = 2 * kNodes;
  std::vector<int64_t> ends;
  uint64_t state = 7;
  for (int64_t i = 0; i < 2 * kEdges; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    ends.push_back(static_cast<int64_t>((state >> 33) % kNodes));
  }
  std::vector<float> x;
  for (int64_t i = 0; i < kNodes * kColumns; ++i) x.push_back(0.25f * static_cast<float>(i % 11) - 1.0f);
  GraphSource source;
  source.name = "g";
  source.node_count = kNodes;
  source.edge_index = Ints(ends, {2, kEdges});
  source.x = Floats(x, {kNodes, kColumns});
  source.order = OrderKind::kNone;
  return source;
}

inline void PutLargeWorld(Engine& engine) {
  ASSERT_TRUE(engine.PutGraph(LargeGraph()).ok());
  const auto status = AwaitGraph(engine, "g");
  ASSERT_TRUE(status.ok() && status->state == GraphState::kReady) << status.status();
  ModelSource model;
  model.name = "m";
  model.architecture_json = kGcn;
  model.weights_file = SafetensorsBuilder()
                           .AddRamp("conv1.lin.weight", {16, kColumns})
                           .AddRamp("conv1.bias", {16})
                           .AddRamp("conv2.lin.weight", {8, 16})
                           .AddRamp("conv2.bias", {8})
                           .Build();
  const auto put = engine.PutModel(model, {});
  ASSERT_TRUE(put.ok()) << put.status();
}

// Of each kind of work, the first configuration that is not a default is twice as fast as the rest. Runs that take less
// are run more often before anything is decided.
inline constexpr double kRunSeconds = 5e-3;
inline ToldMeter::Times OneIsTwiceAsFast() {
  auto favourites = std::make_shared<std::map<std::string, KernelSetting>>();
  return [favourites](const TuningKey& key, const KernelSetting& setting) {
    if (setting.config != KernelConfig()) favourites->emplace(Describe(key), setting);
    const auto found = favourites->find(Describe(key));
    return RunSample{(found != favourites->end() && found->second == setting ? 0.5 : 1.0) * kRunSeconds, false};
  };
}

inline void ExpectTheFastOne(const TuningRecord& record) {
  EXPECT_EQ(record.state, TuningState::kTuned) << record.note;
  ASSERT_NE(record.choice(), nullptr);
  EXPECT_NE(record.chosen, 0) << Describe(record.key);
  EXPECT_EQ(record.choice()->outcome, CandidateOutcome::kChosen);
  EXPECT_GE(record.choice()->samples, 6);
  EXPECT_NEAR(record.gain, 2.0, 1e-9);
}

// Counts the tunings that ended, for those who wait for one.
class TuningCount final : public StatsSink {
 public:
  void StageSeconds(std::string_view, double) override {}
  void PhaseSeconds(std::string_view, double) override {}
  void QueueDepth(int64_t) override {}
  void TuningRun(std::string_view, double, int64_t, int64_t) override {
    MutexLock lock(&mutex_);
    ++count_;
    ended_.NotifyAll();
  }
  int64_t count() {
    MutexLock lock(&mutex_);
    return count_;
  }
  void AwaitMoreThan(int64_t count) {
    MutexLock lock(&mutex_);
    while (count_ <= count) ended_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar ended_;
  int64_t count_ VICINAL_GUARDED_BY(mutex_) = 0;
};

class TuningTest : public ::testing::Test {
 protected:
  // It may still measure, and ask what belongs to the test itself.
  void TearDown() override { engine_.reset(); }

  // A budget also counts what passes on the engine's clock. That clock stands still, so that the told times alone
  // count, however slow the machine is.
  void Make(ToldMeter::Times times, Nanoseconds budget = std::chrono::seconds(1)) {
    meter_ = std::make_unique<ToldMeter>(std::move(times));
    EngineOptions options;
    options.clock = engine_clock_;
    options.tuning_budget = budget;
    options.stats = &ended_;
    engine_ = MakeEngine(options, meter_.get());
    PutLargeWorld(*engine_);
  }
  // Before Make: deadlines in real time need a clock that advances.
  void UseRealClock() { engine_clock_ = &Clock::Real(); }
  // Waits until nothing of the graph is wanted, queued or running.
  std::vector<TuningRecord> AwaitTuning(const std::string& graph, bool ordered = false) {
    while (true) {
      const int64_t ended = ended_.count();
      const auto report = engine_->GetTuning(graph);
      if (!report.ok()) return {};
      const std::vector<TuningRecord> records = ordered ? Ordered(report->records) : report->records;
      if (IsTuned(records)) return records;
      ended_.AwaitMoreThan(ended);
    }
  }
  // Without what the plan that was made with the model knows, and nobody measures.
  static std::vector<TuningRecord> Ordered(std::vector<TuningRecord> records) {
    std::erase_if(records, [](const TuningRecord& record) { return record.state == TuningState::kDefault; });
    return records;
  }
  static bool IsTuned(const std::vector<TuningRecord>& records) {
    return !records.empty() && std::all_of(records.begin(), records.end(), [](const TuningRecord& record) {
      return record.state == TuningState::kTuned || record.state == TuningState::kFailed;
    });
  }
  std::vector<float> Answer() {
    const auto answer = Infer(*engine_, AllNodes("g", "m"));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->values : std::vector<float>();
  }
  TuneGraphRequest Request(std::vector<int64_t> widths = {}) {
    TuneGraphRequest request;
    request.graph = "g";
    request.widths = std::move(widths);
    return request;
  }

  FakeClock clock_;
  const Clock* engine_clock_ = &clock_;
  TuningCount ended_;
  std::unique_ptr<ToldMeter> meter_;
  std::unique_ptr<Engine> engine_;  // after those, which must outlive it
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_TUNING_TUNING_TESTING_H_

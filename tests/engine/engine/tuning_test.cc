// SPDX-License-Identifier: Apache-2.0
// Tuning through the engine's door, with times of our own: what wins is what the test says, and no test waits for a
// clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/engine/small_world.h"

namespace vicinal::testing {
namespace {

using ::testing::HasSubstr;

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

// A graph so large that kernels have more than one configuration for it, and a GCN 3 -> 16 -> 8.
constexpr int64_t kNodes = 60'000;
constexpr char kGcn[] = R"({
  "format": "vicinal.model/1", "in_channels": 3,
  "layers": [
    {"name": "conv1", "type": "GCNConv", "args": {"in_channels": 3, "out_channels": 16}},
    {"name": "act", "type": "ReLU"},
    {"name": "conv2", "type": "GCNConv", "args": {"in_channels": 16, "out_channels": 8}}
  ]})";

GraphSource LargeGraph() {
  constexpr int64_t kEdges = 2 * kNodes;
  std::vector<int64_t> ends;
  uint64_t state = 7;
  for (int64_t i = 0; i < 2 * kEdges; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    ends.push_back(static_cast<int64_t>((state >> 33) % kNodes));
  }
  std::vector<float> x;
  for (int64_t i = 0; i < kNodes * 3; ++i) x.push_back(0.25f * static_cast<float>(i % 11) - 1.0f);
  GraphSource source;
  source.name = "g";
  source.node_count = kNodes;
  source.edge_index = Ints(ends, {2, kEdges});
  source.x = Floats(x, {kNodes, 3});
  source.order = OrderKind::kNone;
  return source;
}

void PutLargeWorld(Engine& engine) {
  ASSERT_TRUE(engine.PutGraph(LargeGraph()).ok());
  const auto status = AwaitGraph(engine, "g");
  ASSERT_TRUE(status.ok() && status->state == GraphState::kReady) << status.status();
  ModelSource model;
  model.name = "m";
  model.architecture_json = kGcn;
  model.weights_file = SafetensorsBuilder()
                           .AddRamp("conv1.lin.weight", {16, 3})
                           .AddRamp("conv1.bias", {16})
                           .AddRamp("conv2.lin.weight", {8, 16})
                           .AddRamp("conv2.bias", {8})
                           .Build();
  const auto put = engine.PutModel(model, {});
  ASSERT_TRUE(put.ok()) << put.status();
}

// Of each kind of work, the first configuration that is not a default is twice as fast as the rest.
ToldMeter::Times OneIsTwiceAsFast() {
  auto favourites = std::make_shared<std::map<std::string, KernelSetting>>();
  return [favourites](const TuningKey& key, const KernelSetting& setting) {
    if (setting.config != KernelConfig()) favourites->emplace(Describe(key), setting);
    const auto found = favourites->find(Describe(key));
    return RunSample{found != favourites->end() && found->second == setting ? 0.5e-3 : 1e-3, false};
  };
}

void ExpectTheFastOne(const TuningRecord& record) {
  EXPECT_EQ(record.state, TuningState::kTuned) << record.note;
  ASSERT_NE(record.choice(), nullptr);
  EXPECT_NE(record.chosen, 0) << Describe(record.key);
  EXPECT_EQ(record.choice()->outcome, CandidateOutcome::kChosen);
  EXPECT_GE(record.choice()->samples, 6);
  EXPECT_NEAR(record.gain, 2.0, 1e-9);
}

// Waits until nothing of the graph is wanted, queued or running.
std::vector<TuningRecord> AwaitTuning(Engine& engine, const std::string& graph) {
  while (true) {
    const auto report = engine.GetTuning(graph);
    if (!report.ok()) return {};
    bool done = !report->records.empty();
    for (const TuningRecord& record : report->records)
      done = done && (record.state == TuningState::kTuned || record.state == TuningState::kFailed);
    if (done) return report->records;
    std::this_thread::yield();
  }
}

class TuningTest : public ::testing::Test {
 protected:
  void Make(ToldMeter::Times times, Nanoseconds budget = std::chrono::seconds(1)) {
    meter_ = std::make_unique<ToldMeter>(std::move(times));
    EngineOptions options;
    options.tuning_budget = budget;
    options.run_meter = meter_.get();
    engine_ = MakeEngine(options);
    PutLargeWorld(*engine_);
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

  std::unique_ptr<ToldMeter> meter_;
  std::unique_ptr<Engine> engine_;  // after the meter, which must outlive it
};

TEST_F(TuningTest, AGraphServesAtOnceAndImprovesWithTheSameBits) {
  Make(OneIsTwiceAsFast());
  const auto before = Infer(*engine_, AllNodes("g", "m"));
  ASSERT_TRUE(before.ok()) << before.status();
  const auto records = AwaitTuning(*engine_, "g");
  ASSERT_FALSE(records.empty());
  for (const TuningRecord& record : records) {
    ExpectTheFastOne(record);
    EXPECT_GT(record.used_seconds, 0.0);
    EXPECT_EQ(record.candidates[0].ratio, 1.0);
  }
  const auto after = Infer(*engine_, AllNodes("g", "m"));
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(after->values, before->values);
  EXPECT_EQ(after->served_by.numerics_revision, before->served_by.numerics_revision);

  const auto explanation = engine_->Explain(AllNodes("g", "m"));
  ASSERT_TRUE(explanation.ok());
  ASSERT_EQ(explanation->tuning.size(), explanation->steps.size());
  int tuned = 0;
  for (size_t i = 0; i < explanation->steps.size(); ++i) {
    const PlanStepInfo& step = explanation->steps[i];
    EXPECT_EQ(explanation->tuning[i].has_value(), step.operation == "aggregate") << step.operation;
    if (!explanation->tuning[i].has_value()) continue;
    EXPECT_TRUE(step.tuned);
    EXPECT_EQ(step.kernel, explanation->tuning[i]->choice()->setting.kernel);
    EXPECT_EQ(step.parameters, explanation->tuning[i]->choice()->parameters);
    EXPECT_GT(explanation->tuning[i]->choice()->predicted_seconds, 0.0);
    EXPECT_GE(explanation->tuning[i]->uses, 1);
    ++tuned;
  }
  EXPECT_EQ(tuned, 2);
}

TEST_F(TuningTest, NothingIsTunedUnaskedWhereTheBudgetIsZero) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  (void)Answer();
  const auto noted = engine_->GetTuning("g");
  ASSERT_TRUE(noted.ok()) << noted.status();
  for (const TuningRecord& record : noted->records) EXPECT_EQ(record.state, TuningState::kDefault);
  const auto report = engine_->TuneGraph(Request());
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->records.size(), 2) << "what the plan asked for";
  for (const TuningRecord& record : report->records) ExpectTheFastOne(record);
}

TEST_F(TuningTest, AskedForByName) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  TuneGraphRequest request = Request({8, 16});
  request.kinds = {"mean", "max"};
  const auto report = engine_->TuneGraph(request);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->records.size(), 4);
  for (const TuningRecord& record : report->records) EXPECT_EQ(record.state, TuningState::kTuned);
  request.operation = "attention";
  request.kinds = {"gat", "gatv2", "dot"};
  request.heads = {2};
  EXPECT_EQ(engine_->TuneGraph(request)->records.size(), 6);
  // Each weighting, one more than the defaults' two of a sum.
  request = Request({8});
  request.weights = {"none", "per_edge", "per_source"};
  request.kinds = {"sum"};
  EXPECT_EQ(engine_->TuneGraph(request)->records.size(), 3);
}

TEST_F(TuningTest, AGainWithinTheNoiseKeepsTheDefault) {
  Make([](const TuningKey&, const KernelSetting&) { return RunSample{1e-3, false}; });
  TuneGraphRequest request = Request({32});
  request.kinds = {"mean"};
  const auto report = engine_->TuneGraph(request);
  ASSERT_TRUE(report.ok());
  for (const TuningRecord& record : report->records) {
    EXPECT_EQ(record.chosen, 0);
    EXPECT_EQ(record.gain, 1.0);
  }
}

TEST_F(TuningTest, ABudgetThatEndsEarlyKeepsTheDefault) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  TuneGraphRequest request = Request({32});
  request.kinds = {"mean"};
  request.budget = std::chrono::milliseconds(3);
  const auto report = engine_->TuneGraph(request);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->records[0].chosen, 0);
  EXPECT_THAT(report->records[0].note, HasSubstr("the default stays"));
  EXPECT_DOUBLE_EQ(report->records[0].budget_seconds, 3e-3);
}

TEST_F(TuningTest, DisturbedSamplesAreDroppedAndCounted) {
  std::atomic<int64_t> count{0};
  Make([&count, times = OneIsTwiceAsFast()](const TuningKey& key, const KernelSetting& setting) {
    RunSample sample = times(key, setting);
    // A disturbed run looks like the fastest.
    if (++count % 3 == 0) sample = {1e-6, true};
    return sample;
  });
  TuneGraphRequest request = Request({8});
  request.kinds = {"mean"};
  const auto report = engine_->TuneGraph(request);
  ASSERT_TRUE(report.ok());
  for (const TuningRecord& record : report->records) {
    int64_t dropped = 0;
    for (const TuningCandidate& candidate : record.candidates) dropped += candidate.dropped_samples;
    EXPECT_GT(dropped, 0);
    ExpectTheFastOne(record);
  }
  engine_.reset();  // the meter reads what lies here
}

TEST_F(TuningTest, ForcedAndForgotten) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  const std::vector<float> before = Answer();
  TuneGraphRequest force = Request();
  force.force = ForcedConfiguration{"simd_rows", {{"prefetch_edges", 5}}};
  const auto forced = engine_->TuneGraph(force);
  ASSERT_TRUE(forced.ok()) << forced.status();
  EXPECT_EQ(forced->records.size(), 2);
  for (const TuningRecord& record : forced->records) EXPECT_EQ(record.state, TuningState::kForced);
  auto explanation = engine_->Explain(AllNodes("g", "m"));
  for (const PlanStepInfo& step : explanation->steps) {
    if (step.operation != "aggregate") continue;
    EXPECT_THAT(step.parameters, ::testing::Contains(NamedParameter{"prefetch_edges", 5}));
  }
  EXPECT_EQ(Answer(), before);
  TuneGraphRequest reset = Request();
  reset.reset = true;
  ASSERT_TRUE(engine_->TuneGraph(reset).ok());
  explanation = engine_->Explain(AllNodes("g", "m"));
  for (const PlanStepInfo& step : explanation->steps) {
    EXPECT_FALSE(step.tuned);
    EXPECT_THAT(step.parameters, ::testing::Not(::testing::Contains(NamedParameter{"prefetch_edges", 5})));
  }
  EXPECT_EQ(Answer(), before);
}

TEST_F(TuningTest, WhatIsNamedTwiceIsMeantOnceAndATableHasAnEnd) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  TuneGraphRequest force = Request();
  force.kinds = {"mean", "mean"};
  force.widths.assign(20'000, 8);
  force.force = ForcedConfiguration{"simd_rows", {}};
  const auto once = engine_->TuneGraph(force);
  ASSERT_TRUE(once.ok()) << once.status();
  EXPECT_EQ(once->records.size(), 1);
  StatusOr<TuningReport> last = once;
  for (int64_t first = 100; first < 2'000 && last.ok(); first += 200) {
    force.widths.resize(200);
    std::iota(force.widths.begin(), force.widths.end(), first);
    last = engine_->TuneGraph(force);
  }
  EXPECT_EQ(last.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(last.status())->reason, "TUNING_TABLE_FULL");
}

TEST_F(TuningTest, WhatIsForcedWhileItWaitsStaysForced) {
  std::promise<void> started, go_on;
  std::atomic<bool> told{false};
  Make(
      [&, times = OneIsTwiceAsFast()](const TuningKey& key, const KernelSetting& setting) {
        if (!told.exchange(true)) {
          started.set_value();
          go_on.get_future().wait();
        }
        return times(key, setting);
      },
      Nanoseconds::zero());
  TuneGraphRequest order = Request({8, 16});
  order.kinds = {"mean"};
  order.wait = false;
  ASSERT_TRUE(engine_->TuneGraph(order).ok());
  started.get_future().wait();
  TuneGraphRequest force = Request({16});
  force.kinds = {"mean"};
  force.force = ForcedConfiguration{"simd_rows", {{"prefetch_edges", 5}}};
  ASSERT_TRUE(engine_->TuneGraph(force).ok());
  go_on.set_value();
  TuneGraphRequest next = Request({32});
  next.kinds = {"mean"};
  ASSERT_TRUE(engine_->TuneGraph(next).ok());  // after what was ordered before it
  const auto report = engine_->GetTuning("g");
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->records.size(), 3);
  for (const TuningRecord& record : report->records) {
    EXPECT_EQ(record.state, record.key.width == 16 ? TuningState::kForced : TuningState::kTuned)
        << Describe(record.key);
  }
  engine_.reset();  // the meter reads what lies here
}

// Whatever kernel and configuration serve, the bits are those of the default.
TEST_F(TuningTest, EveryCandidateGivesTheSameBits) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  const std::vector<float> before = Answer();
  const auto report = engine_->TuneGraph(Request());
  ASSERT_TRUE(report.ok());
  for (const TuningCandidate& candidate : report->records[0].candidates) {
    TuneGraphRequest force = Request();
    force.force = ForcedConfiguration{candidate.setting.kernel, {}};
    for (const NamedParameter& parameter : candidate.parameters)
      force.force->parameters[parameter.name] = parameter.value;
    ASSERT_TRUE(engine_->TuneGraph(force).ok());
    EXPECT_EQ(Answer(), before) << candidate.setting.kernel;
  }
}

TEST_F(TuningTest, BadInputNamesItsField) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  (void)Answer();
  struct Case {
    const char* reason;
    const char* field;
    std::function<void(TuneGraphRequest*)> spoil;
  };
  const Case cases[] = {
      {"BAD_WIDTH", "widths[1]",
       [](auto* r) {
         r->widths = {16, 0};
       }},
      {"BAD_WIDTH", "widths[0]", [](auto* r) { r->widths = {1 << 20}; }},
      {"BAD_WIDTH", "heads", [](auto* r) { r->operation = "attention", r->heads = {5000}; }},
      {"WIDTHS_MISSING", "widths", [](auto* r) { r->widths = {}, r->kinds = {"sum"}; }},
      {"OPERATION_UNKNOWN", "operation", [](auto* r) { r->operation = "aggregation"; }},
      {"KIND_UNKNOWN", "kinds[0]", [](auto* r) { r->kinds = {"median"}; }},
      {"HEADS_UNEXPECTED", "heads", [](auto* r) { r->heads = {2}; }},
      {"WEIGHTS_UNKNOWN", "weights[0]", [](auto* r) { r->weights = {"heavy"}; }},
      {"WEIGHTS_UNEXPECTED", "weights", [](auto* r) { r->operation = "attention", r->weights = {"none"}; }},
      {"TOO_MANY_COMBINATIONS", "widths",
       [](auto* r) { r->widths.resize(300), std::iota(r->widths.begin(), r->widths.end(), 1); }},
      {"BAD_BUDGET", "budget", [](auto* r) { r->budget = std::chrono::seconds(-1); }},
      {"RESET_AND_FORCE", "reset",
       [](auto* r) {
         r->reset = true, r->force = ForcedConfiguration{"simd_rows", {}};
       }},
      {"KERNEL_MISSING", "force.kernel", [](auto* r) { r->force = ForcedConfiguration{}; }},
      {"KERNEL_UNKNOWN", "force.kernel",
       [](auto* r) {
         r->force = ForcedConfiguration{"warp", {}};
       }},
      {"PARAMETER_UNKNOWN", "force.parameters['colour']",
       [](auto* r) {
         r->force = ForcedConfiguration{"simd_rows", {{"colour", 1}}};
       }},
  };
  for (const Case& c : cases) {
    TuneGraphRequest request = Request({16});
    c.spoil(&request);
    const auto report = engine_->TuneGraph(request);
    ASSERT_EQ(report.status().code(), StatusCode::kInvalidArgument) << c.reason;
    EXPECT_EQ(DetailOf(report.status())->reason, c.reason);
    EXPECT_EQ(DetailOf(report.status())->field, c.field);
  }
  TuneGraphRequest unknown = Request({16});
  unknown.graph = "nothing";
  EXPECT_EQ(engine_->TuneGraph(unknown).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(engine_->GetTuning("nothing").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(engine_->GetTuning("g")->records.size(), 2) << "what was refused is not noted";
}

TEST_F(TuningTest, LimitsEndTheWaitNotTheWork) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  TuneGraphRequest request = Request({16});
  request.kinds = {"mean"};
  request.limits.deadline = Clock::Real().Now() - std::chrono::seconds(1);
  const auto late = engine_->TuneGraph(request);
  EXPECT_TRUE(late.ok() || late.status().code() == StatusCode::kDeadlineExceeded);
  EXPECT_EQ(AwaitTuning(*engine_, "g")[0].state, TuningState::kTuned);
  request.limits = {};
  request.wait = false;
  EXPECT_TRUE(engine_->TuneGraph(request).ok());
}

TEST_F(TuningTest, ADrainEndsTuningAndNothingHangs) {
  std::promise<void> started;
  std::atomic<bool> told{false};
  Make(
      [&, times = OneIsTwiceAsFast()](const TuningKey& key, const KernelSetting& setting) {
        if (!told.exchange(true)) started.set_value();
        return times(key, setting);
      },
      Nanoseconds::zero());
  TuneGraphRequest request = Request({8, 16, 32, 64, 128});
  request.wait = false;
  ASSERT_TRUE(engine_->TuneGraph(request).ok());
  started.get_future().wait();
  EXPECT_TRUE(engine_->Drain(Clock::Real().Now() + std::chrono::hours(1)));
  engine_.reset();
}

// For the thread sanitizer: requests, explanations and replacements while a graph is tuned over and over.
TEST_F(TuningTest, RequestsWhileTuning) {
  std::atomic<int64_t> turn{0};
  Make(
      [&turn](const TuningKey&, const KernelSetting& setting) {
        // Now this one is faster, now that one.
        return RunSample{(++turn / 200 + setting.config.values[0]) % 2 == 0 ? 1e-4 : 1.2e-4, turn % 11 == 0};
      },
      std::chrono::milliseconds(5));
  const std::vector<float> expected = Answer();
  std::atomic<bool> stop{false};
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> clients;
  clients.emplace_back([&] {
    while (!stop) {
      const auto answer = Infer(*engine_, AllNodes("g", "m"));
      if (!answer.ok() || answer->values != expected) ++wrong;
    }
  });
  clients.emplace_back([&] {
    while (!stop) (void)engine_->Explain(AllNodes("g", "m")), (void)engine_->GetTuning("g");
  });
  TuneGraphRequest reset = Request();
  reset.reset = true;
  TuneGraphRequest force = Request();
  force.force = ForcedConfiguration{"simd_rows", {{"prefetch_edges", 5}}};
  for (int round = 0; round < 5; ++round) {
    // Requests go first, so this may not come to an end.
    TuneGraphRequest request = Request();
    request.limits.deadline = Clock::Real().Now() + std::chrono::milliseconds(500);
    const auto report = engine_->TuneGraph(request);
    EXPECT_TRUE(report.ok() || report.status().code() == StatusCode::kDeadlineExceeded) << report.status();
    EXPECT_TRUE(engine_->TuneGraph(round % 2 ? reset : force).ok());
  }
  GraphSource source = LargeGraph();
  source.replace = true;
  ASSERT_TRUE(engine_->PutGraph(source).ok());
  ASSERT_TRUE(AwaitGraph(*engine_, "g").ok());
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  engine_.reset();  // the meter reads what lies here
}

}  // namespace
}  // namespace vicinal::testing

// SPDX-License-Identifier: Apache-2.0
// Tuning across restarts of an engine: decisions serve at once, and nothing is measured a second time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/tuning/message_models.h"
#include "tests/engine/tuning/tuning_testing.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::testing {
namespace {

// Not a width of the model.
constexpr int64_t kOtherWidth = 24;

class TuningRestartTest : public TuningTest {
 protected:
  void Start(Nanoseconds budget = std::chrono::seconds(1)) {
    meter_ = std::make_unique<ToldMeter>([this, times = OneIsTwiceAsFast()](const auto& key, const auto& setting) {
      if (key.width != kOtherWidth) ++measured_;
      return times(key, setting);
    });
    EngineOptions options;
    options.clock = engine_clock_;
    options.tuning_budget = budget;
    options.stats = &ended_;
    options.state_dir = directory_ / "state";
    engine_ = MakeEngine(options, meter_.get());
  }
  void Stop() {
    EXPECT_TRUE(engine_->Drain(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
    engine_.reset();
  }
  // A drain waits for versions only: decisions were durable before they served.
  void Restart() {
    if (engine_ != nullptr) Stop();
    measured_ = 0;
    Start();
    Await([](const GraphResource& graph) { return graph.state != GraphState::kLoading; });
    ASSERT_EQ(engine_->GetGraph("g")->state, GraphState::kReady);
  }
  void AwaitDurable() {
    Await([](const GraphResource& graph) {
      return graph.serving.has_value() && graph.serving->durability == Durability::kDurable;
    });
  }
  void Await(const std::function<bool(const GraphResource&)>& reached) {
    std::promise<void> promise;
    bool told = false;
    const auto look = [&] {
      const auto graph = engine_->GetGraph("g");
      if (told || !graph.ok() || !reached(*graph)) return;
      told = true;
      promise.set_value();
    };
    auto watch = engine_->WatchGraph("g", look);
    ASSERT_TRUE(watch.ok()) << watch.status();
    if (!reached(*engine_->GetGraph("g"))) promise.get_future().wait();
    watch->reset();
  }
  InferenceResult Result() {
    auto answer = Infer(*engine_, AllNodes("g", "m"));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return *std::move(answer);
  }

  TemporaryDirectory directory_;
  std::atomic<int64_t> measured_{0};  // runs of works of the model
};

TEST_F(TuningRestartTest, DecisionsServeAtOnceAndNothingIsMeasuredAgain) {
  Start();
  PutLargeWorld(*engine_);
  AwaitDurable();
  const InferenceResult untuned = Result();
  const std::vector<TuningRecord> before = AwaitTuning("g");
  const InferenceResult tuned = Result();
  ASSERT_EQ(before.size(), 2u);
  EXPECT_GT(measured_, 0);
  Restart();
  const InferenceResult after = Result();
  EXPECT_EQ(after.values, tuned.values);
  EXPECT_EQ(after.values, untuned.values);
  EXPECT_EQ(after.served_by.numerics_revision, tuned.served_by.numerics_revision);
  const auto report = engine_->GetTuning("g");
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->records.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    const TuningRecord& record = report->records[i];
    ExpectTheFastOne(record);
    EXPECT_EQ(record.key, before[i].key);
    EXPECT_EQ(record.choice()->setting, before[i].choice()->setting);
    EXPECT_EQ(record.candidates.size(), before[i].candidates.size());
    EXPECT_EQ(record.used_seconds, before[i].used_seconds);
    EXPECT_EQ(record.finish_time, before[i].finish_time);
  }
  const auto explanation = engine_->Explain(AllNodes("g", "m"));
  ASSERT_TRUE(explanation.ok());
  for (const PlanStepInfo& step : explanation->steps) EXPECT_EQ(step.tuned, step.operation == "aggregate");
  // The service looks for works after each order. Had the known ones been wanted, it would measure them now.
  ASSERT_TRUE(engine_->TuneGraph(Request({kOtherWidth})).ok());
  ASSERT_TRUE(engine_->TuneGraph(Request({kOtherWidth})).ok());
  EXPECT_EQ(measured_, 0);
}

TEST_F(TuningRestartTest, AnExpressionIsKnownByNameUntilAModelHasItsProgram) {
  Start(Nanoseconds::zero());
  PutLargeWorld(*engine_);
  PutMessageModel(*engine_, "message", kProductMessage, "mean");
  AwaitDurable();
  const auto answer = [this](const std::string& model) {
    const auto result = Infer(*engine_, AllNodes("g", model));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->values : std::vector<float>();
  };
  const std::vector<float> untuned = answer("message");
  TuneGraphRequest request = Request();
  request.operation = "expression";
  const auto tuned = engine_->TuneGraph(request);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  ASSERT_EQ(tuned->records.size(), 1u);
  ExpectTheFastOne(tuned->records[0]);
  ASSERT_TRUE(engine_->DeleteModel("message", 0).ok());
  Restart();
  const auto record = [this] {
    const auto report = engine_->GetTuning("g");
    for (const TuningRecord& one : report->records)
      if (one.key.operation == "expression") return one;
    return TuningRecord();
  };
  ExpectTheFastOne(record());
  EXPECT_EQ(record().key, tuned->records[0].key);
  EXPECT_EQ(record().choice()->setting, tuned->records[0].choice()->setting);
  PutMessageModel(*engine_, "again", kProductMessage, "mean");
  EXPECT_EQ(answer("again"), untuned);
  const auto explanation = engine_->Explain(AllNodes("g", "again"));
  ASSERT_TRUE(explanation.ok());
  int64_t expressions = 0;
  for (const PlanStepInfo& step : explanation->steps) {
    if (step.operation != "expression") continue;
    ++expressions;
    EXPECT_TRUE(step.tuned);
  }
  EXPECT_EQ(expressions, 1);
  ExpectTheFastOne(record());
}

TEST_F(TuningRestartTest, ForcedKernelsAndResetsComeBack) {
  Start(Nanoseconds::zero());
  PutLargeWorld(*engine_);
  AwaitDurable();
  (void)Result();
  TuneGraphRequest force = Request();
  force.force = ForcedConfiguration{"tiled_rows", {}};
  const auto forced = engine_->TuneGraph(force);
  ASSERT_TRUE(forced.ok()) << forced.status();
  TuneGraphRequest reset = Request({8});
  reset.kinds = {"sum"};
  reset.reset = true;
  ASSERT_TRUE(engine_->TuneGraph(reset).ok());
  const auto before = engine_->GetTuning("g");
  Restart();  // with background tuning, which leaves both alone
  (void)Result();
  const auto after = engine_->GetTuning("g");
  ASSERT_TRUE(before.ok() && after.ok());
  std::map<std::string, TuningState> states, former;
  for (const TuningRecord& record : after->records) states[Describe(record.key)] = record.state;
  for (const TuningRecord& record : before->records) former[Describe(record.key)] = record.state;
  for (const auto& [key, state] : former) EXPECT_EQ(states[key], state) << key;
  EXPECT_EQ(measured_, 0);
}

TEST_F(TuningRestartTest, DamagedDecisionsBlockNothing) {
  Start();
  PutLargeWorld(*engine_);
  AwaitDurable();
  (void)Result();
  AwaitTuning("g");
  const std::vector<float> values = Result().values;
  Stop();
  int64_t damaged = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_ / "state")) {
    if (entry.path().parent_path().filename() != "documents") continue;
    std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 2);
    ++damaged;
  }
  EXPECT_EQ(damaged, 1);
  Restart();
  EXPECT_EQ(Result().values, values);
  for (const TuningRecord& record : AwaitTuning("g")) ExpectTheFastOne(record);
  EXPECT_GT(measured_, 0);
}

TEST_F(TuningRestartTest, WhatWasLearntAndTakenComesBack) {
  Start();
  PutLargeWorld(*engine_);
  (void)Result();
  const std::vector<TuningRecord> tuned = AwaitTuning("g");
  AwaitDurable();
  Restart();
  // Learnt from disk; taken by the new version, which nobody has asked anything yet but the plans made ahead.
  GraphSource source = LargeGraph();
  source.replace = true;
  ASSERT_TRUE(engine_->PutGraph(std::move(source)).ok());
  ASSERT_TRUE(AwaitGraph(*engine_, "g").ok());
  AwaitDurable();
  Restart();
  const auto explanation = engine_->Explain(AllNodes("g", "m"));
  ASSERT_TRUE(explanation.ok()) << explanation.status();
  int64_t seeded = 0;
  for (const auto& record : explanation->tuning) {
    if (!record.has_value()) continue;
    EXPECT_EQ(record->choice()->setting, tuned[seeded++].choice()->setting);
  }
  EXPECT_EQ(seeded, 2);
}

}  // namespace
}  // namespace vicinal::testing

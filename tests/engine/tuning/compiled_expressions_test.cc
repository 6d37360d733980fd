// SPDX-License-Identifier: Apache-2.0
// Message functions whose kernel interprets until code was compiled: tuning waits for the code of each candidate before
// it takes memory or the device, and no request waits for that. No compiler, and no time but the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/execute/awaited.h"
#include "engine/kernels/expression_form.h"
#include "engine/tune/program_work.h"
#include "tests/engine/kernels/edge_values.h"
#include "tests/engine/tuning/tuning_alone.h"

namespace vicinal::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// What the kernel and its compiler do, on the threads that do it. The tuner and the executor take turns.
struct Events {
  std::vector<std::string> seen;
  int held = 0;    // compilations
  int awaits = 0;  // of all of them
  // Called in each wait for the code of that size of tile; whether it has ended.
  std::function<bool(int tile)> await = [](int) { return true; };
  std::string why_interpreted;  // with tiles of 16
};

class InterpretedProgram final : public ExpressionKernel, public ExpressionFormMaker {
 public:
  explicit InterpretedProgram(Events* events) : events_(*events) {}
  std::string_view name() const override { return "programs"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"expression_rows", 1, true}; }
  Refusal WhyUnsupported(const ExpressionProblem&) const override { return {}; }
  std::vector<std::string_view> ParameterNames() const override { return {"edge_tile"}; }
  std::vector<KernelConfig> Candidates(const ExpressionProblem&) const override { return {{}, {{16}}, {{32}}}; }
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return static_cast<size_t>(out_width * in_width) * sizeof(float);
  }
  void Pack(ConstMatrixView, void*) const override {}
  Status Run(DeviceContext&, const ExpressionArgs& args, void*) const override {
    EXPECT_EQ(events_.held, 3) << "the code of all candidates stays until the end";
    const std::string run = absl::StrCat("run ", args.config.values[0]);
    if (std::find(events_.seen.begin(), events_.seen.end(), run) == events_.seen.end()) events_.seen.push_back(run);
    return OkStatus();
  }
  std::shared_ptr<const ExpressionForm> MakeForm(const ExpressionArgs& args,
                                                 const std::vector<const void*>& parameters) const override {
    const bool counted = std::find(parameters.begin(), parameters.end(), nullptr) != parameters.end();
    if (!counted) events_.seen.push_back(absl::StrCat("form ", args.config.values[0]));
    return std::make_shared<Form>();
  }
  std::unique_ptr<ExpressionCompilation> Compile(const ExpressionProblem&, const KernelConfig& config) const override {
    events_.seen.push_back(absl::StrCat("compile ", config.values[0]));
    return std::make_unique<Compilation>(&events_, config.values[0]);
  }

 private:
  class Form final : public ExpressionForm {
   public:
    Form() { bytes_.resize(1000); }
  };
  class Compilation final : public ExpressionCompilation {
   public:
    Compilation(Events* events, int tile) : events_(*events), tile_(tile) { ++events_.held; }
    ~Compilation() override { --events_.held; }
    bool Await(std::chrono::milliseconds at_most) const override {
      EXPECT_LE(at_most, std::chrono::milliseconds(20)) << "who stops meanwhile waits for no longer";
      ++events_.awaits;
      if (!events_.await(tile_)) return false;
      events_.seen.push_back(absl::StrCat("compiled ", tile_));
      return true;
    }
    std::string WhyInterpreted() const override { return tile_ == 16 ? events_.why_interpreted : ""; }

   private:
    Events& events_;
    const int tile_;
  };

  Events& events_;
};

// Made before the service.
struct OwnTime {
  FakeClock time;
  RememberedRuns runs;
};

class CompiledExpressionsTest : private OwnTime, public TuningAlone {
 protected:
  CompiledExpressionsTest()
      : TuningAlone(
            [](const TuningKey&, const KernelSetting& setting) {
              return RunSample{(setting.config.values[0] == 16 ? 0.5 : 1.0) * 1e-3, false};
            },
            time, &runs) {
    registry_.expression.Add(std::make_unique<InterpretedProgram>(&events_));
    EdgeProgram program;
    program.sources = program.targets = 1;
    program.values = {ValueOf(EdgeOp::kSource, 4, -1, -1, 0), ValueOf(EdgeOp::kTarget, 4, -1, -1, 0),
                      ValueOf(EdgeOp::kMultiply, 4, 0, 1), ValueOf(EdgeOp::kLinear, 4, 2, -1, 0)};
    program.results = {{EdgeReduce::kSum, 3, -1}};
    work_ = {KeyOf(program, EdgeWeights::kNone), {}, std::make_shared<const EdgeProgram>(program)};
    graph_->tuning().Note(work_);
  }
  using OwnTime::runs;
  using OwnTime::time;

  // Without the service.
  Status StatusOfTuning(const TuningTools& tools, const std::function<bool()>& stopping) {
    TuningJob job;
    job.graph = graph_;
    job.work = work_;
    job.budget = std::chrono::seconds(1);
    return TuneKey(tools, &executor_, job, stopping).record.status();
  }
  void ExpectNothingLeft() {
    EXPECT_THAT(events_.seen, ElementsAre("compile 0")) << "nothing was compiled after it, nothing ran";
    EXPECT_EQ(events_.held, 0);
    EXPECT_EQ(budget_.Snapshot().tuning, 0);
    EXPECT_THAT(runs.TakeBegun(), IsEmpty());
  }

  Events events_;
};

TEST_F(CompiledExpressionsTest, EachCandidateIsCompiledBeforeMemoryIsTakenAndBeforeAnythingRuns) {
  events_.await = [&](int) {
    EXPECT_EQ(budget_.Snapshot().tuning, 0) << "a compiler takes seconds, and so would the memory be missing";
    EXPECT_THAT(runs.TakeBegun(), IsEmpty()) << "an end of the process now says nothing about the kernel";
    return events_.awaits % 3 == 0;
  };
  const TuningRecord record = Tune();
  EXPECT_EQ(record.state, TuningState::kTuned) << record.note;
  ASSERT_NE(record.choice(), nullptr);
  EXPECT_EQ(record.choice()->setting.config, (KernelConfig{{16}}));
  EXPECT_EQ(record.note, "");
  ASSERT_THAT(events_.seen, SizeIs(12));
  const auto runs_from = events_.seen.begin() + 9;
  EXPECT_THAT(std::vector(events_.seen.begin(), runs_from),
              ElementsAre("compile 0", "compiled 0", "compile 16", "compiled 16", "compile 32", "compiled 32", "form 0",
                          "form 16", "form 32"))
      << "one at a time, so that the program of a new plan waits for one at most";
  EXPECT_EQ(*runs_from, "run 0");
  EXPECT_EQ(events_.awaits, 9);
  EXPECT_EQ(events_.held, 0) << "of those that lost, too";
  EXPECT_EQ(budget_.Snapshot().tuning, 0);
}

// As many as there are waits, each answered before the compiler ends.
TEST_F(CompiledExpressionsTest, RequestsAreServedWhileItCompiles) {
  int64_t answered = 0;
  events_.await = [&](int) {
    Awaited<bool> answer;
    EXPECT_TRUE(
        executor_.Submit(Numbered(7, {}, [&](const StatusOr<InferenceResult>& result) { answer.Set(result.ok()); }))
            .ok());
    answered += answer.Take() ? 1 : 0;
    return answered % 2 == 0;
  };
  EXPECT_EQ(Tune().state, TuningState::kTuned);
  EXPECT_EQ(answered, 6);
}

TEST_F(CompiledExpressionsTest, TheTimeOfTheCompilerIsNoPartOfTheBudget) {
  events_.await = [&](int) {
    time.Advance(std::chrono::seconds(100));
    return true;
  };
  const TuningRecord record = Tune();
  EXPECT_EQ(record.state, TuningState::kTuned) << record.note;
  EXPECT_LT(record.used_seconds, 1.1);
  EXPECT_GE(record.choice()->samples, 6);
}

TEST_F(CompiledExpressionsTest, WhatCannotBeCompiledIsMeasuredInterpreted) {
  events_.why_interpreted = "it is interpreted, as compiling failed: no NVRTC";
  const TuningRecord record = Tune();
  EXPECT_EQ(record.state, TuningState::kTuned) << record.note;
  EXPECT_EQ(record.choice()->setting.config, (KernelConfig{{16}})) << "the fastest as it serves";
  EXPECT_EQ(record.candidates.size(), 3u);
  EXPECT_THAT(record.note, StartsWith("measured interpreted (1 of 3 candidates): it is interpreted, as compiling "
                                      "failed: no NVRTC"));
}

TEST_F(CompiledExpressionsTest, AServerThatStopsDoesNotWaitForTheCompiler) {
  events_.await = [](int) { return false; };
  const Status stopped = StatusOfTuning(Parts(), [&] { return events_.awaits == 3; });
  EXPECT_EQ(stopped.code(), StatusCode::kUnavailable) << stopped;
  EXPECT_EQ(events_.awaits, 3);
  ExpectNothingLeft();
}

TEST_F(CompiledExpressionsTest, NorDoesTheServiceThatIsTold) {
  Awaited<bool> compiling;
  events_.await = [&](int) {
    if (events_.awaits == 1) compiling.Set(true);
    return false;
  };
  TuningService service(Parts());
  service.Start(&executor_);
  ASSERT_TRUE(service.Order(graph_, {work_}, std::chrono::seconds(1), std::nullopt, false, {}).ok());
  compiling.Take();
  service.Stop();
  ExpectNothingLeft();
  EXPECT_THAT(graph_->tuning().Record(work_.key)->note, HasSubstr("shutting down"));
}

TEST_F(CompiledExpressionsTest, AGraphThatIsDeletedEndsTheWait) {
  events_.await = [](int) { return false; };
  TuningService::Parts parts = Parts();
  parts.is_current = [&](const PreparedGraph&) { return events_.awaits < 2; };
  const Status gone = StatusOfTuning(parts, [] { return false; });
  EXPECT_EQ(gone.code(), StatusCode::kCancelled) << gone;
  EXPECT_EQ(events_.awaits, 2);
  ExpectNothingLeft();
}

TEST_F(CompiledExpressionsTest, ACompilerThatNeverEndsLeavesTheChoice) {
  const TuningRecord before = Tune();
  ASSERT_EQ(before.state, TuningState::kTuned) << before.note;
  events_ = {};
  (void)runs.TakeBegun();
  events_.await = [&](int) {
    time.Advance(std::chrono::seconds(50));
    return false;
  };
  const TuningRecord record = Tune();
  EXPECT_EQ(events_.awaits, 6) << "five minutes";
  ExpectNothingLeft();
  EXPECT_EQ(record.state, TuningState::kTuned) << "as before";
  EXPECT_EQ(record.choice()->setting, before.choice()->setting);
  EXPECT_THAT(record.note, HasSubstr("not compiled within 300 s"));
}

TEST_F(CompiledExpressionsTest, NothingIsCompiledWhereThereIsNothingToCompare) {
  for (const char* const tile : {"16", "32"}) runs.Quarantine(absl::StrCat("expression programs edge_tile=", tile));
  const TuningRecord record = Tune();
  EXPECT_EQ(record.state, TuningState::kTuned);
  EXPECT_EQ(record.note, "one candidate only: nothing to measure");
  EXPECT_THAT(events_.seen, ElementsAre("form 0"));
}

}  // namespace
}  // namespace vicinal::testing

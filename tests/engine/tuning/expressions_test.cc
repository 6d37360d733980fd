// SPDX-License-Identifier: Apache-2.0
// Message functions as expressions are tuned as aggregations are, by programs: on a CPU, and on a device whose kernel
// interprets until it was compiled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/tuning/message_models.h"
#include "tests/engine/tuning/tuning_testing.h"

namespace vicinal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class ExpressionsTest : public TuningTest {
 protected:
  void MakeWithMessages(Nanoseconds budget = Nanoseconds::zero()) {
    Make(OneIsTwiceAsFast(), budget);
    PutMessageModel(*engine_, "product", kProductMessage, "mean");
  }
  void PutOther() { PutMessageModel(*engine_, "other", kOtherMessage, "max"); }
  std::vector<float> AnswerOf(const std::string& model) {
    const auto answer = Infer(*engine_, AllNodes("g", model));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->values : std::vector<float>();
  }
  // The one step with an expression over edges, and its record.
  void ExplainTo(const std::string& model, PlanStepInfo* step, TuningRecord* record) {
    const auto explanation = engine_->Explain(AllNodes("g", model));
    ASSERT_TRUE(explanation.ok()) << explanation.status();
    int64_t count = 0;
    for (size_t i = 0; i < explanation->steps.size(); ++i) {
      if (explanation->steps[i].operation != "expression") continue;
      ++count;
      *step = explanation->steps[i];
      ASSERT_TRUE(explanation->tuning[i].has_value()) << "Explain shows the record";
      *record = *explanation->tuning[i];
    }
    ASSERT_EQ(count, 1);
  }
  TuningRecord RecordOf(const std::string& model) {
    PlanStepInfo step;
    TuningRecord record;
    ExplainTo(model, &step, &record);
    return record;
  }
  PlanStepInfo StepOf(const std::string& model) {
    PlanStepInfo step;
    TuningRecord record;
    ExplainTo(model, &step, &record);
    return step;
  }
  TuneGraphRequest Expressions() {
    TuneGraphRequest request = Request();
    request.operation = "expression";
    return request;
  }
  // "REASON field" of the error.
  std::string Refused(const TuneGraphRequest& request) {
    const auto detail = DetailOf(engine_->TuneGraph(request).status());
    return detail.has_value() ? detail->reason + " " + detail->field : "OK";
  }
};

int32_t EdgeTile(const PlanStepInfo& step) {
  for (const NamedParameter& parameter : step.parameters)
    if (parameter.name == "edge_tile") return parameter.value;
  return -1;
}

TEST_F(ExpressionsTest, TheFasterSettingServesWithTheSameBits) {
  MakeWithMessages();
  const std::vector<float> untuned = AnswerOf("product");
  EXPECT_EQ(RecordOf("product").state, TuningState::kDefault);
  EXPECT_FALSE(StepOf("product").tuned);
  const auto report = engine_->TuneGraph(Expressions());
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_THAT(report->records, SizeIs(1)) << "of the model that is there";
  const TuningRecord record = RecordOf("product");
  ExpectTheFastOne(record);
  EXPECT_EQ(record.key.operation, "expression");
  EXPECT_EQ(record.key.kind, "mean");
  EXPECT_EQ(record.key.width, kColumns);
  EXPECT_EQ(record.choice()->setting.kernel, "edge_tiles");
  const PlanStepInfo step = StepOf("product");
  EXPECT_TRUE(step.tuned);
  EXPECT_EQ(EdgeTile(step), 96) << "the first setting that is not the default";
  EXPECT_EQ(AnswerOf("product"), untuned);

  TuneGraphRequest reset = Expressions();
  reset.reset = true;
  ASSERT_TRUE(engine_->TuneGraph(reset).ok());
  EXPECT_EQ(RecordOf("product").state, TuningState::kDefault);
  EXPECT_FALSE(StepOf("product").tuned);
}

TEST_F(ExpressionsTest, EstimatedMeasuresThemToo) {
  MakeWithMessages();
  (void)AnswerOf("product");
  TuneGraphRequest request = Expressions();
  request.strategy = TuningStrategy::kEstimated;
  const auto report = engine_->TuneGraph(request);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_THAT(report->records, SizeIs(1));
  EXPECT_EQ(report->records[0].strategy, TuningStrategy::kMeasured) << "there are no models of them";
  ExpectTheFastOne(report->records[0]);
}

TEST_F(ExpressionsTest, InTheBackgroundToo) {
  MakeWithMessages(std::chrono::seconds(1));
  const std::vector<float> untuned = AnswerOf("product");
  (void)AwaitTuning("g");
  ExpectTheFastOne(RecordOf("product"));
  EXPECT_EQ(AnswerOf("product"), untuned);
}

TEST_F(ExpressionsTest, ModelsWithTheSameFunctionsShareAnEntryWhateverTheirWeights) {
  MakeWithMessages();
  PutMessageModel(*engine_, "retrained", kProductMessage, "mean", 0.25f);
  EXPECT_NE(AnswerOf("product"), AnswerOf("retrained"));
  PutOther();
  (void)AnswerOf("other");
  EXPECT_EQ(RecordOf("product").key, RecordOf("retrained").key);
  EXPECT_NE(RecordOf("product").key.program, RecordOf("other").key.program);
  const auto report = engine_->TuneGraph(Expressions());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->records, SizeIs(2));
}

TEST_F(ExpressionsTest, ForcedByProgramOrByKind) {
  MakeWithMessages();
  const std::vector<float> untuned = AnswerOf("product");
  PutOther();
  (void)AnswerOf("other");
  TuneGraphRequest force = Expressions();
  force.programs = {RecordOf("product").key.program};
  force.force = ForcedConfiguration{"edge_tiles", {{"edge_tile", 20}}};
  const auto forced = engine_->TuneGraph(force);
  ASSERT_TRUE(forced.ok()) << forced.status();
  ASSERT_THAT(forced->records, SizeIs(1));
  EXPECT_EQ(forced->records[0].state, TuningState::kForced);
  EXPECT_EQ(EdgeTile(StepOf("product")), 20);
  EXPECT_EQ(EdgeTile(StepOf("other")), 0);
  EXPECT_EQ(AnswerOf("product"), untuned);

  force.programs.clear();
  force.kinds = {"max"};
  force.force->parameters = {{"edge_tile", 192}};
  ASSERT_TRUE(engine_->TuneGraph(force).ok());
  EXPECT_EQ(EdgeTile(StepOf("product")), 20);
  EXPECT_EQ(EdgeTile(StepOf("other")), 192);

  // The kernel says which operation is meant.
  TuneGraphRequest any = Request();
  any.force = ForcedConfiguration{"edge_tiles", {}};
  const auto all = engine_->TuneGraph(any);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(all->records, SizeIs(2));
  EXPECT_EQ(EdgeTile(StepOf("product")), 0);
}

TEST_F(ExpressionsTest, WhatCannotBeMeantIsNamed) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  EXPECT_EQ(Refused(Expressions()), "PROGRAM_UNKNOWN operation") << "no model has such functions";
  MakeWithMessages();
  (void)AnswerOf("product");
  TuneGraphRequest request = Expressions();
  request.programs = {"0123456789abcdef"};
  EXPECT_EQ(Refused(request), "PROGRAM_UNKNOWN programs");
  request = Expressions();
  request.widths = {12};
  EXPECT_EQ(Refused(request), "WIDTHS_UNEXPECTED widths");
  request = Expressions();
  request.heads = {2};
  EXPECT_EQ(Refused(request), "HEADS_UNEXPECTED heads");
  request = Expressions();
  request.kinds = {"gat"};
  EXPECT_EQ(Refused(request), "KIND_UNKNOWN kinds[0]");
  request = Expressions();
  request.force = ForcedConfiguration{"reference", {}};
  EXPECT_EQ(Refused(request), "KERNEL_REFUSED force.kernel") << "it has other bits";
  request = Expressions();
  request.force = ForcedConfiguration{"edge_tiles", {{"edge_tiles", 96}}};
  EXPECT_EQ(Refused(request), "PARAMETER_UNKNOWN force.parameters['edge_tiles']");
  request = Request({12});
  request.programs = {RecordOf("product").key.program};
  EXPECT_EQ(Refused(request), "PROGRAMS_UNEXPECTED programs");
}

TEST_F(ExpressionsTest, CarriedToAnotherServerBeforeItHasTheModel) {
  MakeWithMessages();
  (void)AnswerOf("product");
  ASSERT_TRUE(engine_->TuneGraph(Expressions()).ok());
  const TuningRecord tuned = RecordOf("product");
  const std::vector<float> answer = AnswerOf("product");
  const auto text = engine_->ExportTuning("g");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr(tuned.key.program));

  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  TuneGraphRequest import = Request();
  import.import_text = *text;
  const auto imported = engine_->TuneGraph(import);
  ASSERT_TRUE(imported.ok()) << imported.status();
  // What it knows by name alone cannot be measured. The choice stays.
  const auto report = engine_->TuneGraph(Expressions());
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_THAT(report->records, SizeIs(1));
  EXPECT_EQ(report->records[0].state, TuningState::kTuned);
  EXPECT_EQ(report->records[0].choice()->setting, tuned.choice()->setting);
  EXPECT_THAT(report->records[0].note, HasSubstr("no model has run this program"));

  PutMessageModel(*engine_, "product", kProductMessage, "mean");
  EXPECT_EQ(AnswerOf("product"), answer);
  EXPECT_EQ(RecordOf("product").choice()->setting, tuned.choice()->setting);
  EXPECT_TRUE(StepOf("product").tuned);
  ASSERT_TRUE(engine_->TuneGraph(Expressions()).ok());
  ExpectTheFastOne(RecordOf("product"));
  EXPECT_EQ(RecordOf("product").note, "") << "measured now";
}

TEST_F(ExpressionsTest, AReceptiveFieldHasTheTunedSettingAndTheBitsOfTheWhole) {
  MakeWithMessages();
  const std::vector<float> whole = AnswerOf("product");
  ASSERT_TRUE(engine_->TuneGraph(Expressions()).ok());
  InferenceRequest some = AllNodes("g", "product");
  some.nodes.all = false;
  some.nodes.ids = {3, 19'999, 7, 3};
  some.options.receptive_field = ReceptiveField::kAlways;
  const auto rows = Infer(*engine_, some);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->values.size(), some.nodes.ids.size() * kColumns);
  for (size_t i = 0; i < some.nodes.ids.size(); ++i) {
    const auto row = whole.begin() + some.nodes.ids[i] * kColumns;
    EXPECT_TRUE(std::equal(row, row + kColumns, rows->values.begin() + static_cast<int64_t>(i) * kColumns));
  }
}

class CompiledThereTest : public ExpressionsTest {
 protected:
  void MakeThere(Nanoseconds budget = Nanoseconds::zero()) {
    meter_ = std::make_unique<ToldMeter>(OneIsTwiceAsFast());
    EngineOptions options;
    options.clock = engine_clock_;
    options.device = "cuda:0";
    options.backend_path = VICINAL_LIB_DIR "/libvicinal_programs_backend.so";
    options.memory_budget_bytes = int64_t{1} << 30;
    options.tuning_budget = budget;
    options.stats = &ended_;
    engine_ = MakeEngine(options, meter_.get());
    PutLargeWorld(*engine_);
    PutMessageModel(*engine_, "product", kProductMessage, "mean");
  }
  InferenceResult Result() {
    const auto answer = Infer(*engine_, AllNodes("g", "product"));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : InferenceResult();
  }
  static int32_t Compile(const TuningCandidate& candidate) {
    for (const NamedParameter& parameter : candidate.parameters)
      if (parameter.name == "compile") return parameter.value;
    return -1;
  }
};

TEST_F(CompiledThereTest, TheFasterSettingServesWithTheSameBitsAndNumericsRevision) {
  MakeWithMessages();
  const std::vector<float> on_cpu = AnswerOf("product");
  MakeThere();
  const InferenceResult untuned = Result();
  EXPECT_EQ(untuned.values, on_cpu);
  EXPECT_EQ(RecordOf("product").state, TuningState::kDefault);
  EXPECT_EQ(StepOf("product").kernel, "programs");
  const auto report = engine_->TuneGraph(Expressions());
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_THAT(report->records, SizeIs(1));
  const TuningRecord record = RecordOf("product");
  ExpectTheFastOne(record);
  EXPECT_EQ(record.candidates.size(), 3u);
  for (const TuningCandidate& candidate : record.candidates)
    EXPECT_EQ(Compile(candidate), 0) << "plans with it do not wait for a compiler";
  EXPECT_EQ(EdgeTile(StepOf("product")), 16);
  EXPECT_TRUE(StepOf("product").tuned);
  const InferenceResult tuned = Result();
  EXPECT_EQ(tuned.values, untuned.values);
  EXPECT_EQ(tuned.served_by.numerics_revision, untuned.served_by.numerics_revision);

  TuneGraphRequest force = Expressions();
  force.force = ForcedConfiguration{"programs", {{"edge_tile", 32}}};
  ASSERT_TRUE(engine_->TuneGraph(force).ok());
  EXPECT_EQ(EdgeTile(StepOf("product")), 32);
  const InferenceResult forced = Result();
  EXPECT_EQ(forced.values, untuned.values);
  EXPECT_EQ(forced.served_by.numerics_revision, untuned.served_by.numerics_revision);
}

TEST_F(CompiledThereTest, InTheBackgroundToo) {
  MakeThere(std::chrono::seconds(1));
  const InferenceResult untuned = Result();
  (void)AwaitTuning("g");
  ExpectTheFastOne(RecordOf("product"));
  EXPECT_EQ(Result().values, untuned.values);
}

TEST_F(CompiledThereTest, CarriedToAnotherServer) {
  MakeThere();
  (void)Result();
  ASSERT_TRUE(engine_->TuneGraph(Expressions()).ok());
  const TuningRecord tuned = RecordOf("product");
  const InferenceResult answer = Result();
  const auto text = engine_->ExportTuning("g");
  ASSERT_TRUE(text.ok()) << text.status();
  MakeThere();
  TuneGraphRequest import = Request();
  import.import_text = *text;
  const auto imported = engine_->TuneGraph(import);
  ASSERT_TRUE(imported.ok()) << imported.status();
  const InferenceResult there = Result();
  EXPECT_EQ(RecordOf("product").choice()->setting, tuned.choice()->setting);
  EXPECT_EQ(EdgeTile(StepOf("product")), 16);
  EXPECT_EQ(there.values, answer.values);
  EXPECT_EQ(there.served_by.numerics_revision, answer.served_by.numerics_revision);
}

TEST_F(CompiledThereTest, WithoutAModelThereIsNoProgram) {
  MakeThere();
  EXPECT_EQ(Refused(Expressions()), "OK") << "the plan that was made with the model";
  TuneGraphRequest request = Expressions();
  request.programs = {"0123456789abcdef"};
  EXPECT_EQ(Refused(request), "PROGRAM_UNKNOWN programs");
}

}  // namespace
}  // namespace vicinal::testing

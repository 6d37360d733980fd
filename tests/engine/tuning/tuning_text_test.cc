// SPDX-License-Identifier: Apache-2.0
// Decisions as text: what is exported can be imported, and nothing bad is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/tuning/tuning_testing.h"

namespace vicinal::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

class TuningTextTest : public TuningTest {
 protected:
  StatusOr<TuningReport> Import(std::string text) {
    TuneGraphRequest request = Request();
    request.import_text = std::move(text);
    return engine_->TuneGraph(request);
  }
  // A tuned graph's decisions; the engine after it has none.
  std::string Exported() {
    Make(OneIsTwiceAsFast(), Nanoseconds::zero());
    (void)Answer();
    EXPECT_TRUE(engine_->TuneGraph(Request()).ok());
    const auto text = engine_->ExportTuning("g");
    EXPECT_TRUE(text.ok()) << text.status();
    return *text;
  }
  void ExpectRefused(const std::string& text, const std::string& reason, const std::string& message) {
    const auto imported = Import(text);
    EXPECT_EQ(imported.status().code(), StatusCode::kInvalidArgument) << reason << ": " << message;
    const auto detail = DetailOf(imported.status());
    ASSERT_TRUE(detail.has_value()) << imported.status();
    EXPECT_EQ(detail->reason, reason) << imported.status();
    EXPECT_EQ(detail->field.substr(0, 11), "import_text");
    EXPECT_THAT(std::string(imported.status().message()), HasSubstr(message));
  }
};

TEST_F(TuningTextTest, AnotherServerTakesTheDecisionsAndMeasuresNothing) {
  const std::string text = Exported();
  const auto before = engine_->GetTuning("g");
  int64_t measured = 0;
  Make([&](const TuningKey&, const KernelSetting&) {
    ++measured;
    return RunSample{1.0, false};
  });
  const auto imported = Import(text);
  ASSERT_TRUE(imported.ok()) << imported.status();
  ASSERT_EQ(imported->records.size(), 2u);
  for (size_t i = 0; i < imported->records.size(); ++i) {
    const TuningRecord& record = imported->records[i];
    EXPECT_EQ(record.key, before->records[i].key);
    EXPECT_EQ(record.state, TuningState::kTuned);
    EXPECT_EQ(record.note, "imported");
    EXPECT_EQ(record.choice()->setting, before->records[i].choice()->setting);
    EXPECT_EQ(record.gain, before->records[i].gain);
    EXPECT_EQ(record.used_seconds, 0.0) << "of this graph's budget";
  }
  (void)Answer();
  ASSERT_TRUE(engine_->TuneGraph(Request({24})).ok());
  const auto explanation = engine_->Explain(AllNodes("g", "m"));
  ASSERT_TRUE(explanation.ok());
  for (const PlanStepInfo& step : explanation->steps) EXPECT_EQ(step.tuned, step.operation == "aggregate");
  const auto report = engine_->GetTuning("g");
  ASSERT_TRUE(report.ok()) << report.status();
  for (const TuningRecord& record : report->records) {
    if (record.key.width != 24) {
      EXPECT_EQ(record.note, "imported");
    }
  }
}

TEST_F(TuningTextTest, NothingOfABadTextIsUsed) {
  const std::string text = Exported();
  const Json good = Json::parse(text);
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  ExpectRefused("", "BAD_TUNING_TEXT", "no text of exported tuning");
  ExpectRefused("[]", "BAD_TUNING_TEXT", "not a JSON object");
  ExpectRefused(text.substr(0, text.size() / 2), "BAD_TUNING_TEXT", "");
  ExpectRefused(std::string((4 << 20) + 1, ' '), "BAD_TUNING_TEXT", "4194304");
  using Spoil = std::function<void(Json&)>;
  const std::vector<std::tuple<Spoil, std::string, std::string>> cases = {
      {[](Json& j) { j.erase("format"); }, "BAD_TUNING_TEXT", "format is missing"},
      {[](Json& j) { j["format"] = "vicinal.tuning/2"; }, "BAD_TUNING_TEXT", "this server reads vicinal.tuning/1"},
      {[](Json& j) { j["device"] = "NVIDIA H100"; }, "DEVICE_MISMATCH", "it was exported on 'NVIDIA H100'"},
      {[](Json& j) { j["records"] = 1; }, "BAD_TUNING_TEXT", "records"},
      {[](Json& j) { j["records"][1]["width"] = -8; }, "BAD_TUNING_RECORD", "import_text.records[1].width"},
      {[](Json& j) { j["records"][1] = j["records"][0]; }, "DUPLICATE_RECORD", "records[1]"},
      {[](Json& j) { j["records"][0]["candidates"][1]["kernel"] = "warp"; }, "KERNEL_UNKNOWN", "records[0], aggregate"},
      {[](Json& j) { j["records"][0]["candidates"][1]["kernel"] = "reference"; }, "KERNEL_REFUSED",
       "'reference' rounds differently"},
      {[](Json& j) {
         j["records"][1]["candidates"][1]["parameters"] = {{"speed", 9}};
       },
       "PARAMETER_UNKNOWN", "speed"},
      {[](Json& j) { j["records"][1]["order"]["version"] = 7; }, "KERNEL_VERSION", "version 7"},
      {[](Json& j) { j["records"][1]["weights"] = "per_edge"; }, "ADJACENCY_MISMATCH", "weights per_edge"},
  };
  for (const auto& [spoil, reason, message] : cases) {
    Json bad = good;
    spoil(bad);
    ExpectRefused(bad.dump(), reason, message);
  }
  const auto report = engine_->GetTuning("g");
  for (const TuningRecord& record : report->records) {
    EXPECT_EQ(record.state, TuningState::kDefault) << "the good record beside a bad one, too";
  }
  EXPECT_TRUE(Import(text).ok());
}

TEST_F(TuningTextTest, AnImportIsAlone) {
  const std::string text = Exported();
  for (const auto& spoil : std::vector<std::function<void(TuneGraphRequest&)>>{
           [](auto& r) { r.widths = {8}; }, [](auto& r) { r.reset = true; }, [](auto& r) { r.wait = false; },
           [](auto& r) { r.force.emplace(); }, [](auto& r) { r.budget = Nanoseconds(5); }}) {
    TuneGraphRequest request = Request();
    request.import_text = text;
    spoil(request);
    const auto imported = engine_->TuneGraph(request);
    ASSERT_TRUE(DetailOf(imported.status()).has_value());
    EXPECT_EQ(DetailOf(imported.status())->reason, "IMPORT_ALONE");
  }
  EXPECT_EQ(engine_->ExportTuning("unknown").status().code(), StatusCode::kNotFound);
}

TEST_F(TuningTextTest, ForcedKernelsAndResetsAreDecisionsToo) {
  Make(OneIsTwiceAsFast(), Nanoseconds::zero());
  TuneGraphRequest force = Request({48});
  force.force = ForcedConfiguration{"tiled_rows", {}};
  ASSERT_TRUE(engine_->TuneGraph(force).ok());
  TuneGraphRequest reset = Request({96});
  reset.reset = true;
  ASSERT_TRUE(engine_->TuneGraph(reset).ok());
  const auto before = engine_->GetTuning("g");
  const std::string text = *engine_->ExportTuning("g");
  Make(OneIsTwiceAsFast());
  const auto imported = Import(text);
  ASSERT_TRUE(imported.ok()) << imported.status();
  constexpr size_t kOfThePlan = 2;  // known first, and not decided
  ASSERT_EQ(imported->records.size() + kOfThePlan, before->records.size());
  for (size_t i = 0; i < imported->records.size(); ++i) {
    EXPECT_EQ(imported->records[i].state, before->records[i + kOfThePlan].state);
    EXPECT_EQ(imported->records[i].key, before->records[i + kOfThePlan].key);
  }
}

// Seeds, through the engine's door.
TEST_F(TuningTextTest, AReplacedGraphServesWithTheChoicesOfItsFormerVersion) {
  Make(OneIsTwiceAsFast());
  (void)Answer();
  const auto tuned = AwaitTuning("g");
  const std::vector<float> values = Answer();
  GraphSource source = LargeGraph();
  source.replace = true;
  ASSERT_TRUE(engine_->PutGraph(std::move(source)).ok());
  ASSERT_TRUE(AwaitGraph(*engine_, "g").ok());
  const auto explanation = engine_->Explain(AllNodes("g", "m"));
  ASSERT_TRUE(explanation.ok()) << explanation.status();
  int64_t seeded = 0;
  for (size_t i = 0; i < explanation->steps.size(); ++i) {
    if (!explanation->tuning[i].has_value()) continue;
    EXPECT_EQ(explanation->steps[i].parameters, tuned[seeded].choice()->parameters);
    EXPECT_TRUE(explanation->steps[i].tuned);
    ++seeded;
  }
  EXPECT_EQ(seeded, 2);
  EXPECT_EQ(Answer(), values);
  for (const TuningRecord& record : AwaitTuning("g")) ExpectTheFastOne(record);
}

}  // namespace
}  // namespace vicinal::testing

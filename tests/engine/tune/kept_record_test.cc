// SPDX-License-Identifier: Apache-2.0
// Records as JSON: nothing is lost, nothing bad is accepted, and another build tells whether they still mean the same.
#include "engine/tune/kept_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/tune/record_json.h"
#include "tests/engine/tune/record_testing.h"

namespace vicinal {
namespace {

using Json = nlohmann::json;
using testing::ChoiceOf;
using ::testing::HasSubstr;
using testing::OrderedKernels;

constexpr AdjacencyShape kShape = {10, 10, 40, false, 0};

std::string ReasonOf(const Status& status) {
  const auto detail = DetailOf(status);
  return detail ? detail->reason : "";
}

Json JsonOf(const TuningEntry& entry) { return ToJson(Keep(*OrderedKernels(), DeviceKind::kCpu, entry)); }

StatusOr<TuningEntry> UsableBy(const KernelRegistry& registry, const Json& json) {
  VICINAL_ASSIGN_OR_RETURN(const KeptRecord kept, ParseKeptRecord(json, "record"));
  return Usable(registry, DeviceKind::kCpu, kShape, false, kept);
}

TEST(KeptRecordTest, NothingIsLost) {
  for (const TuningState state : {TuningState::kTuned, TuningState::kForced}) {
    const TuningEntry entry = ChoiceOf(48, "other", 7, state);
    const auto back = UsableBy(*OrderedKernels(), JsonOf(entry));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->work.key, entry.work.key);
    EXPECT_EQ(back->work.adjacency, entry.work.adjacency);
    EXPECT_EQ(back->record.state, state);
    EXPECT_EQ(back->record.choice()->setting, entry.record.choice()->setting);
    EXPECT_EQ(back->record.choice()->parameters, entry.record.choice()->parameters);
    EXPECT_EQ(back->record.finish_time, entry.record.finish_time);
    EXPECT_EQ(back->record.refused[0].reason, entry.record.refused[0].reason);
    EXPECT_EQ(JsonOf(*back), JsonOf(entry));
  }
  const TuningEntry reset{testing::SumOf(3), TuningTable::ResetRecord(testing::SumOf(3).key)};
  const auto back = UsableBy(*OrderedKernels(), JsonOf(reset));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->record.choice(), nullptr);
}

TEST(KeptRecordTest, AdjacenciesOfOutEdgesStayApart) {
  TuningEntry entry = ChoiceOf(48, "other", 7);
  EXPECT_FALSE(JsonOf(entry)["adjacency"].contains("transposed")) << "earlier builds read it";
  entry.work.adjacency = {SelfLoops::kReplace, 1.0f, EdgeWeighting::kSourceMeanOnes, true};
  const auto back = UsableBy(*OrderedKernels(), JsonOf(entry));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->work.adjacency, entry.work.adjacency);
  Json bad = JsonOf(entry);
  bad["adjacency"]["transposed"] = 1;
  EXPECT_FALSE(UsableBy(*OrderedKernels(), bad).ok());
}

TEST(KeptRecordTest, AnEstimateStaysOne) {
  TuningEntry entry = ChoiceOf(48, "other", 7);
  EXPECT_FALSE(JsonOf(entry).contains("estimate"));
  entry.record.strategy = TuningStrategy::kEstimated;
  entry.record.modelled = 321;
  entry.record.model_seconds = 0.002;
  entry.record.profile_seconds = 0.25;
  const Json json = JsonOf(entry);
  const auto back = UsableBy(*OrderedKernels(), json);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->record.strategy, TuningStrategy::kEstimated);
  EXPECT_EQ(back->record.modelled, 321);
  EXPECT_EQ(back->record.model_seconds, 0.002);
  EXPECT_EQ(back->record.profile_seconds, 0.25);
  for (const auto& [name, value] : json["estimate"].items()) {
    Json bad = json;
    bad["estimate"].erase(name);
    EXPECT_EQ(ReasonOf(ParseKeptRecord(bad, "r").status()), "BAD_TUNING_RECORD") << name << " is missing";
    bad["estimate"][name] = -1;
    EXPECT_EQ(ReasonOf(ParseKeptRecord(bad, "r").status()), "BAD_TUNING_RECORD") << name << " is negative";
  }
  Json bad = json;
  bad["estimate"] = "yes";
  EXPECT_EQ(ReasonOf(ParseKeptRecord(bad, "r").status()), "BAD_TUNING_RECORD");
}

TEST(KeptRecordTest, AttentionAndSixteenBitsToo) {
  TuningEntry attention{{}, TuningTable::ResetRecord({})};
  attention.work.key = {"attention", "gatv2", 8, 4, false, EdgeWeights::kNone, Storage::kFloat32};
  attention.work.adjacency = {SelfLoops::kReplace, 1.0f, EdgeWeighting::kNone};
  TuningEntry rounded{{}, TuningTable::ResetRecord({})};
  rounded.work.key = {"aggregate", "max", 8, 1, true, EdgeWeights::kPerSource, Storage::kBfloat16};
  rounded.work.adjacency = {SelfLoops::kAddRemaining, 2.0f, EdgeWeighting::kNone};
  TuningEntry product{{}, TuningTable::ResetRecord({})};
  product.work.key = {"dense_update", "tf32", 12, 1, true, EdgeWeights::kNone, Storage::kFloat32, 34, true};
  TuningEntry expression{{}, TuningTable::ResetRecord({})};
  expression.work.key = {"expression",          "several",         20, 1,     true,
                         EdgeWeights::kPerEdge, Storage::kFloat32, 0,  false, "0123456789abcdef"};
  for (const TuningEntry& entry : {attention, rounded, product, expression}) {
    const auto back = ParseKeptRecord(JsonOf(entry), "record");
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->entry.work.key, entry.work.key);
    EXPECT_EQ(back->entry.record.key, entry.work.key);
    EXPECT_EQ(back->entry.work.adjacency, entry.work.adjacency);
  }
}

TEST(KeptRecordTest, ExpressionsHaveProgramsAndOthersHaveNone) {
  TuningEntry expression{{}, TuningTable::ResetRecord({})};
  expression.work.key.operation = "expression";
  expression.work.key.kind = "softmax";
  expression.work.key.width = 20;
  expression.work.key.program = "0123456789abcdef";
  const Json good = JsonOf(expression);
  EXPECT_TRUE(ParseKeptRecord(good, "r").ok());
  EXPECT_FALSE(good.contains("outputs"));
  EXPECT_FALSE(JsonOf(ChoiceOf(48, "other", 7)).contains("program")) << "as builds without tuned expressions wrote it";
  const auto refused = [&good](const char* name, const Json& value) {
    Json bad = good;
    bad[name] = value;
    return ReasonOf(ParseKeptRecord(bad, "r").status()) == "BAD_TUNING_RECORD";
  };
  EXPECT_TRUE(refused("program", nullptr));
  EXPECT_TRUE(refused("program", "0123"));
  EXPECT_TRUE(refused("program", "0123456789abcdeX"));
  EXPECT_TRUE(refused("kind", "gat"));
  EXPECT_TRUE(refused("width", 65'537));
  EXPECT_TRUE(refused("heads", 2));
  EXPECT_TRUE(refused("concat", false));
  EXPECT_TRUE(refused("precision", "float16"));
  EXPECT_FALSE(refused("weights", "per_edge"));
}

TEST(KeptRecordTest, ARecordOfAProgramThatNoModelHasIsUsable) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  TuningEntry entry{{}, TuningTable::ResetRecord({})};
  entry.work.key.operation = "expression";
  entry.work.key.kind = "sum";
  entry.work.key.width = 20;
  entry.work.key.program = "0123456789abcdef";
  entry.record.key = entry.work.key;
  entry.record.state = TuningState::kTuned;
  TuningCandidate chosen;
  chosen.setting = {"edge_tiles", {{96}}};
  chosen.parameters = {{"edge_tile", 96}, {"prefetch_columns", 0}};
  chosen.outcome = CandidateOutcome::kChosen;
  entry.record.candidates = {chosen};
  const auto parsed = ParseKeptRecord(ToJson(Keep(registry, DeviceKind::kCpu, entry)), "r");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->order, "expression_tiles");
  const auto usable = Usable(registry, DeviceKind::kCpu, kShape, false, *parsed);
  ASSERT_TRUE(usable.ok()) << usable.status();
  EXPECT_EQ(usable->record.choice()->setting, chosen.setting);
  const std::optional<KernelSetting> setting = chosen.setting;
  EXPECT_EQ(ReductionOrderOf(registry, DeviceKind::kCpu, kShape, entry.work.key, setting),
            ReductionOrderOf(registry, DeviceKind::kCpu, kShape, entry.work.key, std::nullopt));
}

TEST(KeptRecordTest, ProductsHaveOutputsAndOthersHaveNone) {
  TuningEntry product{{}, TuningTable::ResetRecord({})};
  product.work.key = {"dense_update", "float32", 12, 1, true, EdgeWeights::kNone, Storage::kFloat32, 34, false};
  const Json good = JsonOf(product);
  EXPECT_TRUE(ParseKeptRecord(good, "r").ok());
  EXPECT_FALSE(JsonOf(ChoiceOf(48, "other", 7)).contains("outputs")) << "as builds without tuned products wrote it";
  const auto refused = [&good](const char* name, const Json& value) {
    Json bad = good;
    bad[name] = value;
    return ReasonOf(ParseKeptRecord(bad, "r").status()) == "BAD_TUNING_RECORD";
  };
  EXPECT_TRUE(refused("outputs", nullptr));
  EXPECT_TRUE(refused("outputs", 0));
  EXPECT_TRUE(refused("outputs", 65'537));
  EXPECT_TRUE(refused("epilogue", nullptr));
  EXPECT_TRUE(refused("kind", "sum"));
  EXPECT_TRUE(refused("heads", 2));
  EXPECT_TRUE(refused("concat", false));
  EXPECT_TRUE(refused("weights", "per_edge"));
  EXPECT_TRUE(refused("precision", "float16"));
}

TEST(KeptRecordTest, EveryMemberIsNeededAndChecked) {
  const Json good = JsonOf(ChoiceOf(48, "other", 7));
  for (const auto& [name, value] : good.items()) {
    Json bad = good;
    bad.erase(name);
    EXPECT_EQ(ReasonOf(ParseKeptRecord(bad, "r").status()), "BAD_TUNING_RECORD") << name << " is missing";
    bad[name] = nullptr;
    EXPECT_EQ(ReasonOf(ParseKeptRecord(bad, "r").status()), "BAD_TUNING_RECORD") << name << " is null";
  }
  for (const auto& [name, value] : good["candidates"][1].items()) {
    Json bad = good;
    bad["candidates"][1].erase(name);
    EXPECT_EQ(ReasonOf(ParseKeptRecord(bad, "r").status()), "BAD_TUNING_RECORD") << name << " is missing";
  }
  using Spoil = std::function<void(Json&)>;
  const std::vector<std::pair<Spoil, std::string>> cases = {
      {[](Json& j) { j["operation"] = "rowwise"; }, "r.operation"},
      {[](Json& j) { j["kind"] = "gat"; }, "none of sum, mean, max, min"},
      {[](Json& j) { j["width"] = 0; }, "r.width is not an integer between 1 and 65536"},
      {[](Json& j) { j["width"] = 65537; }, "r.width"},
      {[](Json& j) { j["width"] = 1.5; }, "r.width"},
      {[](Json& j) { j["width"] = 18446744073709551615U; }, "r.width"},
      {[](Json& j) { j["heads"] = 2; }, "heads and concat are of attention"},
      {[](Json& j) { j["operation"] = "attention", j["kind"] = "gat", j["heads"] = 65536; }, "times width"},
      {[](Json& j) { j["weights"] = "some"; }, "none, per_edge, per_source"},
      {[](Json& j) { j["precision"] = "float64"; }, "r.precision is none of"},
      {[](Json& j) { j["adjacency"]["loops"] = "twice"; }, "r.adjacency.loops"},
      {[](Json& j) { j["adjacency"]["loop_weight"] = 1e300; }, "r.adjacency.loop_weight"},
      {[](Json& j) { j["adjacency"] = Json::array(); }, "r.adjacency is not an object"},
      {[](Json& j) { j["state"] = "running"; }, "r.state is none of default, tuned, forced"},
      {[](Json& j) { j["state"] = "default"; }, "r.candidates"},
      {[](Json& j) { j["candidates"] = Json::array(); }, "r.ch"},
      {[](Json& j) { j["chosen"] = 2; }, "r.chosen"},
      {[](Json& j) { j["chosen"] = -1; }, "r.chosen"},
      {[](Json& j) { j["gain"] = -0.5; }, "r.gain"},
      {[](Json& j) { j["candidates"][0]["samples"] = -1; }, "r.candidates[0].samples"},
      {[](Json& j) { j["candidates"][0]["outcome"] = "won"; }, "r.candidates[0].outcome"},
      {[](Json& j) { j["candidates"][1]["parameters"]["tile"] = 1LL << 40; }, "r.candidates[1].parameters.tile"},
      {[](Json& j) { j["refused"] = {"kernel"}; }, "r.refused[0] is not an object"},
  };
  for (const auto& [spoil, message] : cases) {
    Json bad = good;
    spoil(bad);
    const auto parsed = ParseKeptRecord(bad, "r");
    EXPECT_EQ(ReasonOf(parsed.status()), "BAD_TUNING_RECORD") << message;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(message));
  }
  EXPECT_FALSE(ParseKeptRecord(Json("text"), "r").ok());
  Json later = good;
  later["added_by_a_later_minor_format"] = 1;
  EXPECT_TRUE(ParseKeptRecord(later, "r").ok());
}

TEST(KeptRecordTest, AnotherBuildSeesWhatItCannotUse) {
  const Json json = JsonOf(ChoiceOf(48, "other", 7));
  EXPECT_EQ(ReasonOf(UsableBy(*OrderedKernels(1, false), json).status()), "KERNEL_UNKNOWN");
  const auto newer = UsableBy(*OrderedKernels(2), json);
  EXPECT_EQ(ReasonOf(newer.status()), "KERNEL_VERSION");
  EXPECT_THAT(std::string(newer.status().message()), HasSubstr("order 'odd' version 2; when this was recorded it was "
                                                               "'odd' version 1"));
  Json bad = json;
  bad["width"] = 13;
  EXPECT_EQ(ReasonOf(UsableBy(*OrderedKernels(), bad).status()), "KERNEL_REFUSED");
  bad = json;
  bad["candidates"][1]["parameters"] = {{"depth", 3}};
  EXPECT_EQ(ReasonOf(UsableBy(*OrderedKernels(), bad).status()), "PARAMETER_UNKNOWN");
  bad["candidates"][1]["parameters"] = {{"depth", 0}};
  EXPECT_TRUE(UsableBy(*OrderedKernels(), bad).ok()) << "a parameter at its default, which this kernel lost";
  bad["candidates"][1]["parameters"] = {{"tile", 1 << 30}};
  EXPECT_EQ(ReasonOf(UsableBy(*OrderedKernels(), bad).status()), "PARAMETER_RANGE");
  bad = json;
  bad["weights"] = "per_edge";
  EXPECT_EQ(ReasonOf(UsableBy(*OrderedKernels(), bad).status()), "ADJACENCY_MISMATCH");
  bad["adjacency"]["weighting"] = "sent";
  const auto parsed = ParseKeptRecord(bad, "r");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  AdjacencyShape weighted = kShape;
  weighted.weighted = true;
  EXPECT_TRUE(Usable(*OrderedKernels(), DeviceKind::kCpu, weighted, true, *parsed).ok());
  EXPECT_EQ(ReasonOf(Usable(*OrderedKernels(), DeviceKind::kCpu, weighted, false, *parsed).status()),
            "ADJACENCY_MISMATCH");
}

TEST(KeptRecordTest, CandidatesThatAreGoneStayAsEvidence) {
  TuningEntry entry = ChoiceOf(48, "twin", 7);
  entry.record.candidates[0].setting.kernel = "gone";
  const auto back = UsableBy(*OrderedKernels(), JsonOf(entry));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->record.candidates[0].setting.kernel, "gone");
  EXPECT_EQ(back->record.candidates[0].measured_seconds, 0.3);
}

TEST(KeptRecordTest, OrdersOfSettings) {
  const auto registry = OrderedKernels();
  const TuningKey key = testing::SumOf(8).key;
  const auto order = [&](const std::optional<KernelSetting>& setting) {
    return ReductionOrderOf(*registry, DeviceKind::kCpu, kShape, key, setting);
  };
  EXPECT_EQ(order(std::nullopt), 0);
  EXPECT_EQ(order(KernelSetting{"twin", {}}), 0);
  EXPECT_EQ(order(KernelSetting{"other", {}}), ReductionOrderId("aggregate", {"odd", 1, false}));
  EXPECT_EQ(order(KernelSetting{"gone", {}}), 0);
}

}  // namespace
}  // namespace vicinal

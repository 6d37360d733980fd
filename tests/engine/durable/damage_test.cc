// SPDX-License-Identifier: Apache-2.0
// A start on damaged files: what is damaged is moved to quarantine and an earlier version serves; where there is none,
// requests get DATA_LOSS. Nothing else is affected, and an upload mends it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/durable/restart_testing.h"

namespace vicinal {
namespace {

using testing::AllNodes;
using ::testing::HasSubstr;
using testing::Infer;
using testing::SmallGraph;
using testing::SmallModel;
using ::testing::TestParamInfo;

void ChangeByte(const std::string& file, int64_t offset) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(bytes.is_open()) << file;
  bytes.seekg(offset);
  const int before = bytes.get();
  bytes.seekp(offset);
  bytes.put(static_cast<char>(before ^ 0x11));
}

void Truncate(const std::string& file) { std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2); }

void Zero(const std::string& file) {
  const std::string zeros(std::filesystem::file_size(file), '\0');
  std::ofstream(file, std::ios::binary) << zeros;
}

// Of a data file, `data`, and of the manifest beside it.
struct Damage {
  const char* name;
  std::function<void(const std::string& data, const std::string& manifest)> apply;
};

class DamageTest : public RestartTest, public ::testing::WithParamInterface<Damage> {
 protected:
  // `version`: its directory, below the state directory.
  void Apply(const std::string& version, const std::string& data) const {
    const std::string path = directory_ / ("state/" + version);
    GetParam().apply(path + "/" + data, path + "/manifest.json");
  }
  void PutFeatures(const std::string& name, float first) {
    const std::vector<float> rows = testing::SmallRows(first);
    const HostTensor x = testing::Floats(rows, {testing::kSmallNodes, testing::kSmallFeatures});
    FeatureTensors tensors;
    tensors.dense = x.view();
    ASSERT_TRUE(engine_->PutFeatures("g", name, tensors, true, 0).ok());
  }
  // The version of the feature set `other`, once it is on disk.
  int64_t AwaitOtherDurable() {
    const auto other_of = [](const GraphResource& graph) {
      return std::find_if(graph.feature_sets.begin(), graph.feature_sets.end(),
                          [](const FeatureSetResource& set) { return set.name == "other"; });
    };
    const GraphResource graph = Await("g", [&](const GraphResource& now) {
      const auto other = other_of(now);
      return other != now.feature_sets.end() && other->durability == Durability::kDurable;
    });
    return other_of(graph)->version;
  }
  std::string PathOfOther() {
    const int64_t version = AwaitOtherDurable();
    return "graphs/g/" + std::to_string(engine_->GetGraph("g")->serving->version) + "/features/other/" +
           std::to_string(version);
  }
  StatusOr<InferenceResult> Ask(const std::string& set) {
    InferenceRequest request = AllNodes("g", "m");
    request.feature_set = set;
    return Infer(*engine_, request);
  }
  void ExpectLost(const Status& status, const std::string& what) {
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
    EXPECT_EQ(ReasonOf(status), "STATE_DAMAGED");
    EXPECT_THAT(std::string(status.message()), HasSubstr(what + " could not be loaded from disk: "));
  }
  // That the log names a place in quarantine/, which has the damaged version.
  void ExpectQuarantined() {
    const std::string log = lines_.all(), field = "; quarantine ";
    const size_t begin = log.find(field);
    ASSERT_NE(begin, std::string::npos) << log;
    const std::string place = log.substr(begin + field.size(), log.find('\n', begin) - begin - field.size());
    EXPECT_TRUE(std::filesystem::exists(directory_ / ("state/" + place + "/data"))) << place;
    EXPECT_TRUE(std::filesystem::exists(directory_ / ("state/" + place + "/REASON.json"))) << place;
  }
};

TEST_P(DamageTest, OfAGraphAffectsNoOther) {
  Start();
  Put(SmallGraph("bad"));
  Put(SmallGraph("good"));
  const int64_t version = AwaitDurable("bad").serving->version;
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  Stop();
  Apply("graphs/bad/" + std::to_string(version), "graph.vsec");
  Start();
  EXPECT_EQ(AwaitLoaded("good").state, GraphState::kReady);
  EXPECT_TRUE(Infer(*engine_, AllNodes("good", "m")).ok());
  EXPECT_EQ(AwaitLoaded("bad").state, GraphState::kFailed);
  ExpectLost(Infer(*engine_, AllNodes("bad", "m")).status(), "graph 'bad'");
  ExpectQuarantined();
  Put(SmallGraph("bad"));  // without replace: nothing serves there
  EXPECT_GT(AwaitDurable("bad").serving->version, version);
  Stop();
  Start();
  EXPECT_EQ(AwaitLoaded("bad").state, GraphState::kReady);
}

TEST_P(DamageTest, OfAGraphGivesWayToTheVersionBefore) {
  Start();
  Put(SmallGraph("g"));
  const int64_t first = AwaitDurable("g").serving->version;
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  const auto before = Ask("default");
  GraphSource again = SmallGraph("g", 3.0f);
  again.replace = true;
  Put(std::move(again));
  const int64_t second = AwaitDurable("g").serving->version;
  Stop();
  Apply("graphs/g/" + std::to_string(second), "graph.vsec");
  Start();
  const GraphResource graph = AwaitLoaded("g");
  ASSERT_EQ(graph.state, GraphState::kReady) << graph.error;
  EXPECT_EQ(graph.serving->version, first);
  EXPECT_EQ(graph.serving->durability, Durability::kDurable);
  EXPECT_EQ(Ask("default")->values, before->values);
  ExpectQuarantined();
}

TEST_P(DamageTest, OfAModelAffectsNoOther) {
  Start();
  Put(SmallGraph("g"));
  AwaitDurable("g");
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  ASSERT_TRUE(engine_->PutModel(SmallModel("other"), {}).ok());
  const int64_t version = engine_->GetModel("m")->version;
  Stop();
  Apply("models/m/" + std::to_string(version), "model.vsec");
  Start();
  EXPECT_TRUE(Infer(*engine_, AllNodes("g", "other")).ok());
  ExpectLost(engine_->GetModel("m").status(), "model 'm'");
  ExpectLost(Ask("default").status(), "model 'm'");
  ExpectQuarantined();
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());  // without replace: nothing serves there
  EXPECT_GT(engine_->GetModel("m")->version, version);
  EXPECT_TRUE(Ask("default").ok());
}

TEST_P(DamageTest, OfAModelGivesWayToTheVersionBefore) {
  Start();
  Put(SmallGraph("g"));
  AwaitDurable("g");
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  const UploadedVersion first = {UploadedVersion::Kind::kModel, "m", "", engine_->GetModel("m")->version};
  while (!*engine_->HasReached(first, WaitFor::kDurable)) std::this_thread::yield();
  const auto before = Ask("default");
  ModelSource again = SmallModel("m", 0.75f);
  again.replace = true;
  ASSERT_TRUE(engine_->PutModel(std::move(again), {}).ok());
  const int64_t second = engine_->GetModel("m")->version;
  Stop();
  Apply("models/m/" + std::to_string(second), "model.vsec");
  Start();
  AwaitLoaded("g");
  const auto model = engine_->GetModel("m");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->version, first.version);
  EXPECT_EQ(Ask("default")->values, before->values);
}

TEST_P(DamageTest, OfAFeatureSetAffectsNoOther) {
  Start();
  Put(SmallGraph("g"));
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  PutFeatures("other", 1.5f);
  const auto before = Ask("default");
  const std::string version = PathOfOther();
  Stop();
  Apply(version, "features.vsec");
  Start();
  EXPECT_EQ(AwaitLoaded("g").state, GraphState::kReady);
  EXPECT_EQ(Ask("default")->values, before->values);
  ExpectLost(Ask("other").status(), "feature set 'other' of graph 'g'");
  ExpectQuarantined();
  PutFeatures("other", 1.5f);
  EXPECT_TRUE(Ask("other").ok());
}

TEST_P(DamageTest, OfAFeatureSetGivesWayToTheVersionBefore) {
  Start();
  Put(SmallGraph("g"));
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  PutFeatures("other", 1.5f);
  AwaitOtherDurable();
  const auto before = Ask("other");
  PutFeatures("other", 0.5f);
  const int64_t version = AwaitOtherDurable();
  const std::string path = PathOfOther();
  Stop();
  Apply(path, "features.vsec");
  Start();
  EXPECT_EQ(AwaitLoaded("g").state, GraphState::kReady);
  const auto after = Ask("other");
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->values, before->values);
  EXPECT_LT(after->served_by.feature_set_version, version);
}

// A replica moves nothing, but tells the same.
TEST_P(DamageTest, IsToldByAReplica) {
  Start();
  Put(SmallGraph("g"));
  const int64_t version = AwaitDurable("g").serving->version;
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  Stop();
  Apply("graphs/g/" + std::to_string(version), "graph.vsec");
  EngineOptions options = Options();
  options.state_read_only = true;
  auto replica = Engine::Create(options);
  ASSERT_TRUE(replica.ok()) << replica.status();
  engine_ = *std::move(replica);
  EXPECT_EQ(AwaitLoaded("g").state, GraphState::kFailed);
  ExpectLost(Ask("default").status(), "graph 'g'");
  EXPECT_TRUE(std::filesystem::exists(directory_ / ("state/graphs/g/" + std::to_string(version))));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, DamageTest,
    ::testing::Values(
        Damage{"a_changed_byte", [](const auto& data, const auto&) { ChangeByte(data, 2 << 20); }},  // of a section
        Damage{"a_changed_header", [](const auto& data, const auto&) { ChangeByte(data, 16); }},
        Damage{"a_truncated_file", [](const auto& data, const auto&) { Truncate(data); }},
        Damage{"an_empty_file", [](const auto& data, const auto&) { std::filesystem::resize_file(data, 0); }},
        Damage{"a_zeroed_file", [](const auto& data, const auto&) { Zero(data); }},
        Damage{"a_missing_file", [](const auto& data, const auto&) { std::filesystem::rename(data, data + ".old"); }},
        Damage{"a_truncated_manifest", [](const auto&, const auto& manifest) { Truncate(manifest); }},
        Damage{"a_zeroed_manifest", [](const auto&, const auto& manifest) { Zero(manifest); }}),
    [](const TestParamInfo<Damage>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace vicinal

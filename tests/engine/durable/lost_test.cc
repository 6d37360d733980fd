// SPDX-License-Identifier: Apache-2.0
// What was damaged stays known: after any number of starts requests for it get DATA_LOSS, until it is uploaded again or
// deleted, and replicas tell the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/durable/restart_testing.h"

namespace vicinal {
namespace {

using testing::AllNodes;
using ::testing::HasSubstr;
using testing::Infer;
using testing::SmallGraph;
using testing::SmallModel;

class LostTest : public RestartTest {
 protected:
  void SetUp() override {
    Start();
    Put(SmallGraph("g"));
    Put(SmallGraph("h"));
    ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
    ASSERT_TRUE(engine_->PutModel(SmallModel("n"), {}).ok());
    AwaitDurable("g");
    AwaitDurable("h");
  }
  // Halves a data file of that version while no server runs.
  void Damage(const std::string& version) {
    Stop();
    for (const auto& entry : std::filesystem::directory_iterator(directory_ / ("state/" + version))) {
      if (entry.path().extension() != ".vsec") continue;
      std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 2);
    }
    Start();
  }
  std::string PathOfGraph(const std::string& name) {
    return "graphs/" + name + "/" + std::to_string(AwaitDurable(name).serving->version);
  }
  void Restart() {
    Stop();
    Start();
  }
  Status Ask(const std::string& graph, const std::string& model, const std::string& set = "default") {
    AwaitLoadedAll();
    InferenceRequest request = AllNodes(graph, model);
    request.feature_set = set;
    return Infer(*engine_, request).status();
  }
  void AwaitLoadedAll() {
    while (!engine_->loaded()) std::this_thread::yield();
  }
  // Returns the place of the files, which is there.
  std::string ExpectLost(const Status& status, const std::string& what) {
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what + " could not be loaded from disk: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("upload it again, or delete it"));
    const auto detail = DetailOf(status);
    if (!detail || !detail->metadata.contains("quarantine")) {
      ADD_FAILURE() << "no place in " << status;
      return "";
    }
    const std::string place = detail->metadata.at("quarantine");
    EXPECT_THAT(std::string(status.message()), HasSubstr("'" + place + "'"));
    EXPECT_TRUE(std::filesystem::exists(directory_ / ("state/" + place + "/data"))) << place;
    return place;
  }
  void PutMore(const std::string& graph) {
    const std::vector<float> rows = testing::SmallRows(1.5f);
    const HostTensor x = testing::Floats(rows, {testing::kSmallNodes, testing::kSmallFeatures});
    FeatureTensors tensors;
    tensors.dense = x.view();
    const auto set = engine_->PutFeatures(graph, "more", tensors, false, 0);
    ASSERT_TRUE(set.ok()) << set.status();
    more_ = {UploadedVersion::Kind::kFeatures, graph, "more", set->version};
    AwaitReached(more_);
  }
  void AwaitReached(const UploadedVersion& version) {
    for (;;) {
      const auto reached = engine_->HasReached(version, WaitFor::kDurable);
      ASSERT_TRUE(reached.ok()) << reached.status();
      if (*reached) return;
      std::this_thread::yield();
    }
  }

  UploadedVersion more_;
};

TEST_F(LostTest, WhereTheListIsDamagedTheQuarantineTells) {
  Damage(PathOfGraph("g"));
  const Status first = Ask("g", "m");
  ExpectLost(first, "graph 'g'");
  Stop();
  std::filesystem::resize_file(directory_ / "state/LOST", 30);
  Start();
  EXPECT_EQ(Ask("g", "m"), first);
  EXPECT_THAT(lines_.all(), HasSubstr("list of lost versions damaged"));
  EXPECT_TRUE(Ask("h", "m").ok());
  Restart();
  EXPECT_EQ(Ask("g", "m"), first) << "the list was written anew";
}

TEST_F(LostTest, AGraphUntilItIsUploadedAgain) {
  Damage(PathOfGraph("g"));
  const Status first = Ask("g", "m");
  const std::string place = ExpectLost(first, "graph 'g'");
  for (int start = 0; start < 3; ++start) {
    Restart();
    EXPECT_EQ(Ask("g", "m"), first);
    EXPECT_EQ(engine_->GetGraph("g")->state, GraphState::kFailed);
    EXPECT_TRUE(Ask("h", "m").ok());
  }
  std::filesystem::remove_all(directory_ / ("state/" + place));  // nobody needs the files
  Restart();
  EXPECT_EQ(Ask("g", "m"), first);
  Put(SmallGraph("g"));  // without replace: nothing serves there
  EXPECT_TRUE(Ask("g", "m").ok());
  AwaitDurable("g");
  for (int start = 0; start < 2; ++start) {
    Restart();
    EXPECT_TRUE(Ask("g", "m").ok());
  }
  ASSERT_TRUE(engine_->DeleteGraph("g", 0).ok());
  Restart();
  EXPECT_EQ(Ask("g", "m").code(), StatusCode::kNotFound) << "the loss before the upload is forgotten";
}

TEST_F(LostTest, AGraphUntilItIsDeleted) {
  Damage(PathOfGraph("g"));
  Damage(PathOfGraph("h"));
  ExpectLost(Ask("g", "m"), "graph 'g'");
  ASSERT_TRUE(engine_->DeleteGraph("g", 0).ok());
  EXPECT_EQ(Ask("g", "m").code(), StatusCode::kNotFound);
  EXPECT_EQ(engine_->DeleteGraph("g", 0).code(), StatusCode::kNotFound);
  Restart();
  EXPECT_EQ(Ask("g", "m").code(), StatusCode::kNotFound);
  ExpectLost(Ask("h", "m"), "graph 'h'");
}

TEST_F(LostTest, AVersionOfAGraphWhoseEarlierOneIsLostLater) {
  const std::string first = PathOfGraph("g");
  GraphSource again = SmallGraph("g", 3.0f);
  again.replace = true;
  Put(std::move(again));
  Damage(PathOfGraph("g"));
  EXPECT_TRUE(Ask("g", "m").ok()) << "the version before serves";
  Damage(first);
  ExpectLost(Ask("g", "m"), "graph 'g'");
  Restart();
  ExpectLost(Ask("g", "m"), "graph 'g'");
}

TEST_F(LostTest, AModelUntilItIsUploadedAgain) {
  Damage("models/m/" + std::to_string(engine_->GetModel("m")->version));
  const Status first = Ask("g", "m");
  ExpectLost(first, "model 'm'");
  for (int start = 0; start < 2; ++start) {
    Restart();
    EXPECT_EQ(Ask("g", "m"), first);
    EXPECT_TRUE(Ask("g", "n").ok());
  }
  ASSERT_TRUE(engine_->PutModel(SmallModel("m"), {}).ok());
  Restart();
  EXPECT_TRUE(Ask("g", "m").ok());
}

TEST_F(LostTest, AModelUntilItIsDeleted) {
  Damage("models/m/" + std::to_string(engine_->GetModel("m")->version));
  Restart();
  ASSERT_TRUE(engine_->DeleteModel("m", 0).ok());
  Restart();
  EXPECT_EQ(Ask("g", "m").code(), StatusCode::kNotFound);
}

TEST_F(LostTest, AFeatureSetUntilItIsUploadedAgain) {
  PutMore("g");
  Damage(PathOfGraph("g") + "/features/more/" + std::to_string(more_.version));
  const Status first = Ask("g", "m", "more");
  ExpectLost(first, "feature set 'more' of graph 'g'");
  for (int start = 0; start < 2; ++start) {
    Restart();
    EXPECT_EQ(Ask("g", "m", "more"), first);
    EXPECT_TRUE(Ask("g", "m").ok());
  }
  PutMore("g");
  Restart();
  EXPECT_TRUE(Ask("g", "m", "more").ok());
}

TEST_F(LostTest, AFeatureSetUntilItIsDeleted) {
  PutMore("g");
  Damage(PathOfGraph("g") + "/features/more/" + std::to_string(more_.version));
  Restart();
  ExpectLost(Ask("g", "m", "more"), "feature set 'more' of graph 'g'");
  ASSERT_TRUE(engine_->DeleteFeatures("g", "more").ok());
  EXPECT_EQ(Ask("g", "m", "more").code(), StatusCode::kNotFound);
  Restart();
  EXPECT_EQ(Ask("g", "m", "more").code(), StatusCode::kNotFound);
}

TEST_F(LostTest, IsToldByAReplicaThatSawItsWriterMoveIt) {
  PutMore("g");
  const std::string graph = PathOfGraph("h"), model = "models/n/" + std::to_string(engine_->GetModel("n")->version),
                    set = PathOfGraph("g") + "/features/more/" + std::to_string(more_.version);
  EngineOptions options = Options();
  options.state_read_only = true;
  options.follow_period = std::chrono::milliseconds(1);
  const auto opened = Engine::Create(options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  Engine& replica = **opened;
  const auto await = [&](const std::string& of_graph, const std::string& of_model, const std::string& of_set,
                         StatusCode code) {
    InferenceRequest request = AllNodes(of_graph, of_model);
    request.feature_set = of_set;
    Status status = Infer(replica, request).status();
    for (; status.code() != code; status = Infer(replica, request).status()) std::this_thread::yield();
    return status;
  };
  EXPECT_TRUE(await("g", "m", "more", StatusCode::kOk).ok());
  EXPECT_TRUE(await("h", "n", "default", StatusCode::kOk).ok());
  Damage(graph);
  Damage(model);
  Damage(set);
  ExpectLost(await("h", "m", "default", StatusCode::kDataLoss), "graph 'h'");
  ExpectLost(await("g", "n", "default", StatusCode::kDataLoss), "model 'n'");
  ExpectLost(await("g", "m", "more", StatusCode::kDataLoss), "feature set 'more' of graph 'g'");
  AwaitLoadedAll();
  ASSERT_TRUE(engine_->DeleteGraph("h", 0).ok());
  ASSERT_TRUE(engine_->DeleteModel("n", 0).ok());
  ASSERT_TRUE(engine_->DeleteFeatures("g", "more").ok());
  EXPECT_EQ(await("h", "m", "default", StatusCode::kNotFound).code(), StatusCode::kNotFound);
  EXPECT_EQ(await("g", "n", "default", StatusCode::kNotFound).code(), StatusCode::kNotFound);
  EXPECT_EQ(await("g", "m", "more", StatusCode::kNotFound).code(), StatusCode::kNotFound);
  Put(SmallGraph("h"));
  EXPECT_TRUE(await("h", "m", "default", StatusCode::kOk).ok());
}

}  // namespace
}  // namespace vicinal

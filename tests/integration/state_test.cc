// SPDX-License-Identifier: Apache-2.0
// A server with a state directory, as a process: stopped, killed and started again, it answers with the same bits.
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "tests/integration/fixture.h"

namespace vicinal::testing {
namespace {

class StateTest : public IntegrationTest {
 protected:
  StateTest() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  ~StateTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  // The ready file is written when the server listens; Classify waits for the graph with its retries.
  void Start() { StartServer({"--state_dir=" + folder_ + "/state"}); }
  v1::ClassifyResponse Ask() {
    v1::ClassifyRequest request = TinyRequest();
    request.set_return_logits(true);
    const auto response = client_->Classify(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::ClassifyResponse();
  }
  // Follows the graph until it is on disk.
  void AwaitDurable() {
    for (;;) {
      const auto graph = client_->GetGraph("path");
      ASSERT_TRUE(graph.ok()) << graph.status();
      ASSERT_EQ(graph->durability_error(), "");
      const auto model = client_->GetModel("tiny");
      ASSERT_TRUE(model.ok()) << model.status();
      bool durable = graph->durability() == v1::DURABILITY_DURABLE && model->durability() == v1::DURABILITY_DURABLE;
      for (const v1::FeatureSet& set : graph->feature_sets()) {
        durable = durable && set.durability() == v1::DURABILITY_DURABLE;
      }
      if (durable) return;
    }
  }
  static void ExpectSame(const v1::ClassifyResponse& a, const v1::ClassifyResponse& b) {
    EXPECT_EQ(a.logits().data(), b.logits().data());
    EXPECT_EQ(a.served_by().SerializeAsString(), b.served_by().SerializeAsString());
  }

  std::string folder_ = ::testing::TempDir() + "/state_test_XXXXXX";
};

TEST_F(StateTest, AStoppedServerAnswersTheSameAfterItsNextStart) {
  Start();
  UploadTinyGraph();
  UploadTinyModel();
  const v1::ClassifyResponse before = Ask();
  EXPECT_NE(before.served_by().incarnation(), "");
  EXPECT_EQ(server_->Stop(), 0);
  Start();
  ExpectSame(Ask(), before);
}

TEST_F(StateTest, AKilledServerKeepsWhatWasDurable) {
  Start();
  UploadTinyGraph();
  UploadTinyModel();
  const v1::ClassifyResponse before = Ask();
  AwaitDurable();
  server_->Signal(SIGKILL);
  EXPECT_EQ(server_->Wait(), -SIGKILL);
  Start();
  ExpectSame(Ask(), before);
  ASSERT_TRUE(client_->DeleteGraph("path").ok());
  server_->Signal(SIGKILL);
  EXPECT_EQ(server_->Wait(), -SIGKILL);
  Start();
  EXPECT_EQ(client_->GetGraph("path").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StateTest, VersionsOfAnotherIncarnationAreRefused) {
  Start();
  UploadTinyGraph();
  UploadTinyModel();
  v1::ClassifyRequest request = TinyRequest();
  request.mutable_target()->set_incarnation(Ask().served_by().incarnation());
  EXPECT_TRUE(client_->Classify(request).ok());
  request.mutable_target()->set_incarnation("00000000-0000-4000-8000-000000000000");
  ExpectError(client_->Classify(request).status(), absl::StatusCode::kFailedPrecondition, "INCARNATION_MISMATCH");
}

TEST_F(StateTest, ASecondServerOnTheDirectoryEndsAndNamesTheFirst) {
  Start();
  const Outcome second =
      RunToEnd(std::string(VICINAL_BIN_DIR) + "/vicinal-server",
               {"--state_dir=" + folder_ + "/state", "--grpc_listen=127.0.0.1:0", "--metrics_listen=", "--device=cpu"});
  EXPECT_NE(second.code, 0);
  EXPECT_NE(second.output.find("STATE_LOCKED"), std::string::npos) << second.output;
  EXPECT_NE(second.output.find(std::to_string(server_->pid())), std::string::npos) << second.output;
}

}  // namespace
}  // namespace vicinal::testing

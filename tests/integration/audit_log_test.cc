// SPDX-License-Identifier: Apache-2.0
// What the log of a running server says of calls: who changed what, and nothing of those that only look.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/integration/fixture.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::testing {
namespace {

class AuditLogTest : public IntegrationTest {
 protected:
  std::string SecretFile(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  // "LEVEL METHOD ACTION SUBJECT CODE ROLE" of each line with the message.
  std::vector<std::string> Trail(const std::string& message = "admin request") const {
    std::vector<std::string> trail;
    std::istringstream log(server_->Log());
    for (std::string line; std::getline(log, line);) {
      const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
      EXPECT_TRUE(json.is_object()) << line;
      if (!json.is_object() || json.value("message", "") != message) continue;
      EXPECT_EQ(json.value("peer", "").rfind("127.0.0.1:", 0), 0u) << line;
      EXPECT_TRUE(json.contains("request_id") && json.contains("seconds")) << line;
      const std::string method = json.value("method", "");
      std::string text = json.value("level", "") + method.substr(method.rfind('/'));
      for (const char* field : {"action", "graph", "feature_set", "model", "version", "upload", "code", "role"}) {
        if (json.contains(field)) text += " " + json.value(field, "");
      }
      trail.push_back(text);
    }
    return trail;
  }

  const TemporaryDirectory folder_;
};

TEST_F(AuditLogTest, EachChangeLeavesALine) {
  ASSERT_NO_FATAL_FAILURE(StartServer(
      {"--admin_token_file=" + SecretFile("a", "the-admin\n"), "--infer_token_file=" + SecretFile("i", "the-reader\n")},
      "the-admin"));
  UploadTinyGraph();
  UploadTinyModel();
  ExpectServes();
  EXPECT_TRUE(client_->ListGraphs().ok());
  v1::TuneGraphRequest tune;
  tune.set_name("path");
  tune.set_reset(true);
  EXPECT_TRUE(client_->TuneGraph(tune).ok());
  EXPECT_FALSE(NewClient("the-reader")->TuneGraph(tune).ok());
  EXPECT_FALSE(NewClient("guess")->DeleteModel("tiny").ok());
  EXPECT_FALSE(NewClient("")->DeleteGraph("path").ok());
  EXPECT_FALSE(client_->DeleteFeatures("path", "nothing").ok());
  EXPECT_FALSE(client_->DeleteGraph("path", 7).ok());
  EXPECT_TRUE(client_->DeleteModel("tiny").ok());
  // Of those who may not call, only the headers are read: they name the graph.
  EXPECT_EQ(Trail(), (std::vector<std::string>{
                         "info/UploadGraph upload path finished OK admin",
                         "info/UploadModel upload tiny 1 finished OK admin",
                         "info/TuneGraph reset path 1 OK admin",
                         "warning/TuneGraph path PERMISSION_DENIED infer",
                         "warning/DeleteModel UNAUTHENTICATED unknown",
                         "warning/DeleteGraph path UNAUTHENTICATED no token",
                         "info/DeleteFeatures delete path nothing NOT_FOUND admin",
                         "info/DeleteGraph delete path 7 ABORTED admin",
                         "info/DeleteModel delete tiny OK admin",
                     }));
  EXPECT_TRUE(Trail("request finished").empty());
}

TEST_F(AuditLogTest, ARefusedUploadIsNamed) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  UploadTinyGraph();
  v1::UploadGraphSpec spec;
  spec.set_name("path");
  spec.set_node_count(5);
  const OwnedTensor edges = Ints("edge_index", {2, 1}, {0, 1});
  EXPECT_FALSE(client_->UploadGraph(spec, {edges.view()}).ok());
  spec.set_replace(true);
  EXPECT_TRUE(client_->UploadGraph(spec, {edges.view()}).ok());
  EXPECT_EQ(Trail(), (std::vector<std::string>{
                         "info/UploadGraph upload path finished OK none needed",
                         "info/UploadGraph upload path ALREADY_EXISTS none needed",
                         "info/UploadGraph replace path finished OK none needed",
                     }));
}

TEST_F(AuditLogTest, AtDebugEveryCallIsNamed) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--log_level=debug"}));
  UploadTinyGraph();
  UploadTinyModel();
  ExpectServes();
  const std::vector<std::string> trail = Trail("request finished");
  EXPECT_NE(std::find(trail.begin(), trail.end(), "debug/Classify path tiny OK none needed"), trail.end());
}

}  // namespace
}  // namespace vicinal::testing

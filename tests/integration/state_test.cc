// SPDX-License-Identifier: Apache-2.0
// A server with a state directory, as a process: stopped, killed and started again, it answers with the same bits.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/fixture.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::testing {
namespace {

class StateTest : public IntegrationTest {
 protected:
  // The ready file is written when the server listens; Classify waits for the graph with its retries.
  void Start() { StartServer({"--state_dir=" + folder_ / "state"}); }
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
  // Whether the latest version of the graph in that directory is there with its features.
  static bool HasWholeGraph(const std::string& directory) {
    std::filesystem::path latest;
    int64_t version = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory + "/graphs/path")) {
      const int64_t number = std::stoll(entry.path().filename().string());
      if (!std::filesystem::exists(entry.path() / "manifest.json") || number < version) continue;
      latest = entry.path();
      version = number;
    }
    if (version == 0 || !std::filesystem::exists(latest / "features/default")) return false;
    const std::filesystem::directory_iterator sets(latest / "features/default");
    return std::any_of(begin(sets), end(sets),
                       [](const auto& set) { return std::filesystem::exists(set.path() / "manifest.json"); });
  }
  // As UploadTinyGraph, with edges of that weight.
  void ReplaceTinyGraph(float weight) {
    v1::UploadGraphSpec spec;
    spec.set_name("path");
    spec.set_node_count(5);
    spec.set_replace(true);
    const OwnedTensor edges = Ints("edge_index", {2, 4}, {0, 1, 2, 3, 1, 2, 3, 4});
    const OwnedTensor weights = Floats("edge_weight", {4}, {weight, 1, 1, 1});
    const OwnedTensor x = Floats("x", {5, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6});
    const auto graph = client_->UploadGraph(spec, {edges.view(), weights.view(), x.view()});
    EXPECT_TRUE(graph.ok()) << graph.status();
  }
  static void ExpectSame(const v1::ClassifyResponse& a, const v1::ClassifyResponse& b) {
    EXPECT_EQ(a.logits().data(), b.logits().data());
    EXPECT_EQ(a.served_by().SerializeAsString(), b.served_by().SerializeAsString());
  }

  const TemporaryDirectory folder_;
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

// Copies that are made while a graph is replaced are whole: each has the graph with its features, and answers with the
// bits that the original gave for that version. What was replaced stays for a minute: a copy that takes as long on a
// busy machine need not be whole.
TEST_F(StateTest, ACopyMadeUnderLoadIsAConsistentBackup) {
  constexpr int kReplacements = 20, kMaxCopies = 30;
  Start();
  UploadTinyGraph();
  UploadTinyModel();
  AwaitDurable();
  const v1::ClassifyResponse first = Ask();
  std::map<int64_t, std::string> logits = {{first.served_by().graph_version(), first.logits().data()}};
  std::atomic<bool> done = false;
  std::vector<std::string> copies;
  std::thread copier([&] {
    for (int i = 0; !done && i < kMaxCopies; ++i) {
      const std::string copy = folder_ / "copy" + std::to_string(i);
      const auto begin = std::chrono::steady_clock::now();
      // 1 if a file that it had listed was renamed meanwhile, as manifest.json.tmp is.
      EXPECT_LE(RunToEnd("/bin/cp", {"-a", folder_ / "state", copy}).code, 1);
      if (std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) copies.push_back(copy);
    }
  });
  for (int i = 0; i < kReplacements; ++i) {
    ReplaceTinyGraph(static_cast<float>(1 + i));
    const v1::ClassifyResponse response = Ask();
    logits[response.served_by().graph_version()] = response.logits().data();
    AwaitDurable();
  }
  done = true;
  copier.join();
  EXPECT_EQ(logits.size(), kReplacements + 1u);
  EXPECT_EQ(server_->Stop(), 0);
  const std::string vicinal = std::string(VICINAL_BIN_DIR) + "/vicinal";
  for (const std::string& copy : copies) {
    const Outcome outcome = RunToEnd(vicinal, {"state", "check", copy});
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_TRUE(HasWholeGraph(copy)) << copy;
  }
  const size_t last = copies.empty() ? 0 : copies.size() - 1;
  for (const size_t i : {size_t{0}, last / 2, last}) {
    if (i >= copies.size() || !std::filesystem::exists(copies[i])) continue;  // there were few, and it was served
    const std::string& copy = copies[i];
    const Outcome outcome = RunToEnd(vicinal, {"state", "restore", copy});
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    StartServer({"--state_dir=" + copy});
    const v1::ClassifyResponse response = Ask();
    EXPECT_NE(response.served_by().incarnation(), first.served_by().incarnation());
    ASSERT_TRUE(logits.contains(response.served_by().graph_version()));
    EXPECT_EQ(response.logits().data(), logits[response.served_by().graph_version()]);
    EXPECT_EQ(server_->Stop(), 0);
    std::filesystem::remove_all(copy);
  }
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
               {"--state_dir=" + folder_ / "state", "--grpc_listen=127.0.0.1:0", "--metrics_listen=", "--device=cpu"});
  EXPECT_NE(second.code, 0);
  EXPECT_NE(second.output.find("STATE_LOCKED"), std::string::npos) << second.output;
  EXPECT_NE(second.output.find(std::to_string(server_->pid())), std::string::npos) << second.output;
}

// Where the writer took any free port, its replicas tell which.
TEST_F(StateTest, AReplicaNamesThePortOfItsWriter) {
  Start();
  const auto replica = ServerProcess::Start(std::string(VICINAL_BIN_DIR) + "/vicinal-server",
                                            {"--state_dir=" + folder_ / "state", "--state_read_only", "--device=cpu"});
  ASSERT_TRUE(replica.ok()) << replica.status();
  client::ClientOptions options;
  options.target = (*replica)->grpc_address();
  const auto client = client::Client::Connect(options);
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::Status refused = (*client)->DeleteGraph("path");
  ExpectError(refused, absl::StatusCode::kFailedPrecondition, "READ_REPLICA");
  EXPECT_NE(refused.message().find(server_->grpc_address()), std::string::npos) << refused;
}

// What serves at the writer serves at its replica, and the first answer of each new version was computed before.
TEST_F(StateTest, AReplicaComputesAnswersBeforeANewVersionServes) {
  Start();
  UploadTinyGraph();
  UploadTinyModel();
  const auto replica = ServerProcess::Start(
      std::string(VICINAL_BIN_DIR) + "/vicinal-server",
      {"--state_dir=" + folder_ / "state", "--state_read_only", "--device=cpu", "--keep_answers=always"});
  ASSERT_TRUE(replica.ok()) << replica.status();
  client::ClientOptions options;
  options.target = (*replica)->grpc_address();
  const auto client = client::Client::Connect(options);
  ASSERT_TRUE(client.ok()) << client.status();
  auto request = TinyRequest();
  request.set_return_logits(true);
  // Asks until `wanted` is true of the answer.
  const auto ask = [&](const std::function<bool(const v1::ClassifyResponse&)>& wanted) {
    for (;;) {
      const auto response = (*client)->Classify(request);
      if (response.ok() && wanted(*response)) return *response;
    }
  };
  ask([](const v1::ClassifyResponse& response) { return response.timing().kept_answers(); });
  for (const bool of_graph : {true, false}) {
    of_graph ? UploadTinyGraph("path", {}, true) : UploadTinyModel("tiny", {}, true);
    const auto at_writer = client_->Classify(request);
    ASSERT_TRUE(at_writer.ok()) << at_writer.status();
    const v1::ServedBy& versions = at_writer->served_by();
    const v1::ClassifyResponse first = ask([&](const v1::ClassifyResponse& response) {
      return response.served_by().graph_version() == versions.graph_version() &&
             response.served_by().model_version() == versions.model_version();
    });
    EXPECT_TRUE(first.timing().kept_answers());
    EXPECT_EQ(first.logits().data(), at_writer->logits().data());
    EXPECT_EQ(first.served_by().SerializeAsString(), versions.SerializeAsString());
  }
  const auto page = (*replica)->Scrape();
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_NE(page->find("vicinal_answer_passes_total{outcome=\"ahead\"} 2"), std::string::npos);
}

// Whoever supervises it starts it again, in the new incarnation.
TEST_F(StateTest, AReplicaEndsOnceItsDirectoryIsRestored) {
  Start();
  const std::string binaries = VICINAL_BIN_DIR, state = folder_ / "state";
  const std::vector<std::string> flags = {"--state_dir=" + state, "--state_read_only", "--device=cpu"};
  const auto replica = ServerProcess::Start(binaries + "/vicinal-server", flags);
  ASSERT_TRUE(replica.ok()) << replica.status();
  EXPECT_EQ(server_->Stop(), 0);
  const Outcome restored = RunToEnd(binaries + "/vicinal", {"state", "restore", state});
  ASSERT_EQ(restored.code, 0) << restored.output;
  EXPECT_EQ((*replica)->Wait(), 4);
  EXPECT_NE((*replica)->Log().find("the state directory was replaced; the process must be restarted"),
            std::string::npos);
  EXPECT_TRUE(ServerProcess::Start(binaries + "/vicinal-server", flags).ok());
}

}  // namespace
}  // namespace vicinal::testing

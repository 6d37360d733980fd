// SPDX-License-Identifier: Apache-2.0
// What an upload's finish waits for, over a real socket.
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/fixture.h"
#include "tests/support/temporary_directory.h"
#include "vicinal/v1/graph.grpc.pb.h"

namespace vicinal::testing {
namespace {

using client::UploadOptions;

class WaitForTest : public IntegrationTest {
 protected:
  std::string state() const { return folder_ / "state"; }
  void StartWithState() { StartServer({"--state_dir=" + state()}); }

  static v1::UploadGraphSpec Path(const std::string& id = "") {
    v1::UploadGraphSpec spec;
    spec.set_name("path");
    spec.set_upload_id(id);
    spec.set_node_count(3);
    return spec;
  }
  static UploadOptions Until(v1::WaitFor wait_for) {
    UploadOptions options;
    options.wait_for = wait_for;
    return options;
  }
  absl::StatusOr<v1::Graph> UploadPath(v1::WaitFor wait_for, const std::string& id = "") {
    return client_->UploadGraph(Path(id), {edges_.view(), x_.view()}, Until(wait_for));
  }
  // Finding the communities of so many nodes takes far longer than an answer. Where this process was kept from running
  // meanwhile, the test tries it with more.
  static constexpr int64_t kManyNodes = 60'000;
  absl::StatusOr<v1::Graph> UploadSlow(const std::string& id, int64_t nodes) {
    const int64_t count = 5 * nodes;
    std::vector<int64_t> ends(static_cast<size_t>(2 * count));
    for (int64_t i = 0; i < count; ++i) {
      ends[i] = i % nodes;
      ends[count + i] = (i * 7919 + i / nodes) % nodes;
    }
    const OwnedTensor edges = Ints("edge_index", {2, count}, ends);
    v1::UploadGraphSpec spec = Path(id);
    spec.set_node_count(nodes);
    spec.set_reorder(v1::REORDER_COMMUNITY);
    spec.set_replace(true);
    return client_->UploadGraph(spec, {edges.view()}, Until(v1::WAIT_FOR_ACCEPTED));
  }
  static std::string SlowId(int64_t nodes) { return "upload-slow-" + std::to_string(nodes); }
  // Another finish of an upload.
  grpc::Status FinishAgain(const std::string& id, v1::WaitFor wait_for, v1::UploadGraphResponse* response,
                           std::chrono::milliseconds timeout = std::chrono::minutes(1)) {
    const auto stub =
        v1::GraphService::NewStub(grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    const auto writer = stub->UploadGraph(&context, response);
    v1::UploadGraphRequest resume, finish;
    resume.set_resume_upload_id(id);
    finish.mutable_finish()->set_wait_for(wait_for);
    writer->Write(resume);
    writer->Write(finish);
    writer->WritesDone();
    return writer->Finish();
  }

  const TemporaryDirectory folder_;
  OwnedTensor edges_ = Ints("edge_index", {2, 2}, {0, 1, 1, 2});
  OwnedTensor x_ = Floats("x", {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
};

TEST_F(WaitForTest, WhatWasDurableIsBackAfterAKill) {
  StartWithState();
  bool wrote = false;
  UploadOptions options = Until(v1::WAIT_FOR_DURABLE);
  options.writing = [&] { wrote = true; };
  const auto graph = client_->UploadGraph(Path(), {edges_.view(), x_.view()}, options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(wrote);
  EXPECT_EQ(graph->durability(), v1::DURABILITY_DURABLE);
  EXPECT_EQ(graph->state(), v1::Graph::STATE_READY);
  EXPECT_EQ(graph->feature_sets(0).durability(), v1::DURABILITY_DURABLE);

  v1::UploadFeaturesSpec features;
  features.set_graph("path");
  features.set_name("more");
  const auto set = client_->UploadFeatures(features, {x_.view()}, Until(v1::WAIT_FOR_DURABLE));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->durability(), v1::DURABILITY_DURABLE);

  v1::UploadModelSpec spec;
  spec.set_name("tiny");
  spec.set_architecture_json(TinyArchitecture());
  const OwnedTensor weights = Bytes("weights", TinyWeights());
  const auto model = client_->UploadModel(spec, {weights.view()}, Until(v1::WAIT_FOR_DURABLE));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->durability(), v1::DURABILITY_DURABLE);

  server_->Signal(SIGKILL);
  EXPECT_EQ(server_->Wait(), -SIGKILL);
  StartWithState();
  v1::ClassifyRequest request = TinyRequest();
  request.mutable_nodes()->clear_ids();
  request.mutable_nodes()->add_ids(2);
  request.mutable_target()->set_graph_version(graph->version());
  request.mutable_target()->set_feature_set("more");
  request.mutable_target()->set_feature_set_version(set->version());
  request.mutable_target()->set_model_version(model->version());
  const auto answer = client_->Classify(request);
  EXPECT_TRUE(answer.ok()) << answer.status();
}

TEST_F(WaitForTest, AFinishedUploadCanBeWaitedForAgain) {
  StartWithState();
  const auto accepted = UploadPath(v1::WAIT_FOR_ACCEPTED, "upload-again");
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_GT(accepted->preparing_version(), 0);
  v1::UploadGraphResponse response;
  grpc::Status status = FinishAgain("upload-again", v1::WAIT_FOR_READY, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.graph().state(), v1::Graph::STATE_READY);
  EXPECT_EQ(response.graph().version(), accepted->preparing_version());
  EXPECT_EQ(response.graph().preparing_version(), accepted->preparing_version());
  EXPECT_EQ(response.upload().state(), v1::Upload::STATE_FINISHED);
  status = FinishAgain("upload-again", v1::WAIT_FOR_DURABLE, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.graph().durability(), v1::DURABILITY_DURABLE);
  // Without a wait: the reply of the first finish.
  status = FinishAgain("upload-again", v1::WAIT_FOR_UNSPECIFIED, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.graph().SerializeAsString(), accepted->SerializeAsString());
  // The name goes: what was uploaded is no longer there.
  ASSERT_TRUE(client_->DeleteGraph("path").ok());
  EXPECT_EQ(FinishAgain("upload-again", v1::WAIT_FOR_READY, &response).error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(WaitForTest, ADeadlineEndsTheWaitAndNotTheUpload) {
  StartWithState();
  v1::UploadGraphResponse response;
  grpc::Status status;
  int64_t nodes = kManyNodes;
  for (;; nodes *= 2) {
    ASSERT_TRUE(UploadSlow(SlowId(nodes), nodes).ok());
    status = FinishAgain(SlowId(nodes), v1::WAIT_FOR_DURABLE, &response, std::chrono::milliseconds(20));
    if (!status.ok()) break;
  }
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
  status = FinishAgain(SlowId(nodes), v1::WAIT_FOR_DURABLE, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.graph().durability(), v1::DURABILITY_DURABLE);
}

TEST_F(WaitForTest, AServerThatStopsEndsTheWait) {
  StartWithState();
  v1::UploadGraphResponse response;
  std::future<grpc::Status> wait;
  const std::string waiting = "vicinal_requests_in_flight{method=\"vicinal.v1.GraphService/UploadGraph\"} 1";
  // Until one is waited for that is still being prepared.
  for (int64_t nodes = kManyNodes;; nodes *= 2) {
    ASSERT_TRUE(UploadSlow(SlowId(nodes), nodes).ok());
    wait = std::async(std::launch::async,
                      [&, nodes] { return FinishAgain(SlowId(nodes), v1::WAIT_FOR_DURABLE, &response); });
    bool prepared = false, waits = false;
    while (!prepared && !waits) {
      waits = server_->Scrape().value().find(waiting) != std::string::npos;
      prepared = wait.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }
    if (!prepared) break;
    ASSERT_TRUE(wait.get().ok());
  }
  server_->Signal(SIGTERM);
  const grpc::Status status = wait.get();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(server_->Wait(), 0);
  server_.reset();
}

TEST_F(WaitForTest, AFailedVersionIsItsOwnError) {
  StartWithState();
  edges_ = Ints("edge_index", {2, 2}, {0, 1, 1, 99});
  ASSERT_TRUE(UploadPath(v1::WAIT_FOR_ACCEPTED, "upload-bad").ok());
  for (const v1::WaitFor wait_for : {v1::WAIT_FOR_READY, v1::WAIT_FOR_DURABLE}) {
    v1::UploadGraphResponse response;
    const grpc::Status status = FinishAgain("upload-bad", wait_for, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_NE(status.error_message().find("could not be prepared"), std::string::npos) << status.error_message();
  }
}

TEST_F(WaitForTest, AVersionThatCannotBeWrittenServesAndFailsTheWait) {
  StartWithState();
  std::filesystem::remove_all(state() + "/graphs");
  std::filesystem::create_directory_symlink(folder_.path(), state() + "/graphs");
  const auto graph = UploadPath(v1::WAIT_FOR_DURABLE);
  ExpectError(graph.status(), absl::StatusCode::kFailedPrecondition, "STATE_UNSAFE_PATH");
  const auto there = client_->GetGraph("path");
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->state(), v1::Graph::STATE_READY);
  EXPECT_EQ(there->durability(), v1::DURABILITY_MEMORY);
}

TEST_F(WaitForTest, WithoutAStateDirectoryAnUploadCanWaitUntilItServes) {
  StartServer();
  ExpectError(UploadPath(v1::WAIT_FOR_DURABLE, "upload-memory").status(), absl::StatusCode::kFailedPrecondition,
              "NO_STATE_DIRECTORY");
  v1::UploadGraphResponse response;
  EXPECT_EQ(FinishAgain("upload-memory", static_cast<v1::WaitFor>(9), &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  const grpc::Status status = FinishAgain("upload-memory", v1::WAIT_FOR_READY, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.graph().state(), v1::Graph::STATE_READY);
}

}  // namespace
}  // namespace vicinal::testing

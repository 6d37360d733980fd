// SPDX-License-Identifier: Apache-2.0
// Over a socket: a server that loads graphs from its state directory is ready once all of them are loaded, or one
// serves.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "inference/grpc_inference.grpc.pb.h"
#include "server/server.h"
#include "tests/server/fake_engine.h"
#include "tests/support/eventually.h"

namespace vicinal::server {
namespace {

using ::vicinal::testing::Eventually;

struct Progress {
  std::atomic<bool> loaded{false}, serves{false};
};

// One graph, on disk until it serves.
class LoadingEngine final : public ::vicinal::testing::FakeEngine {
 public:
  explicit LoadingEngine(const Progress* progress) : progress_(*progress) {}
  bool loaded() const override { return progress_.loaded; }
  std::vector<GraphResource> ListGraphs() const override {
    GraphResource graph;
    graph.name = "g";
    graph.state = progress_.serves ? GraphState::kReady : GraphState::kLoading;
    graph.serving.emplace().tier = progress_.serves ? Tier::kHost : Tier::kDisk;
    return {graph};
  }

 private:
  const Progress& progress_;
};

class ReadyWhenTest : public ::testing::Test {
 protected:
  void Start(ReadyWhen ready_when) {
    Config config;
    config.grpc_listen = "127.0.0.1:0";
    config.metrics_listen = "";
    config.log_level = LogLevel::kError;
    config.ready_when = ready_when;
    Fakes fakes;
    fakes.engine = std::make_unique<LoadingEngine>(&progress_);
    auto server = Server::Start(config, std::move(fakes));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = inference::GRPCInferenceService::NewStub(
        grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
  }
  bool IsReady() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    inference::ServerReadyResponse response;
    const grpc::Status status = stub_->ServerReady(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.ready();
  }

  Progress progress_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

TEST_F(ReadyWhenTest, AllWaitsForAllGraphs) {
  progress_.serves = true;
  Start(ReadyWhen::kAll);
  EXPECT_FALSE(IsReady());
  progress_.loaded = true;
  EXPECT_TRUE(Eventually([&] { return IsReady(); }));
}

TEST_F(ReadyWhenTest, AnyWaitsForOneGraph) {
  Start(ReadyWhen::kAny);
  EXPECT_FALSE(IsReady());
  progress_.serves = true;
  EXPECT_TRUE(Eventually([&] { return IsReady(); }));
}

// Nothing is on disk: nothing has to be waited for.
TEST_F(ReadyWhenTest, AnyIsReadyWithoutGraphsOnceAllIsLoaded) {
  progress_.loaded = true;
  Start(ReadyWhen::kAny);
  EXPECT_TRUE(IsReady());
}

}  // namespace
}  // namespace vicinal::server

// SPDX-License-Identifier: Apache-2.0
// Over a socket: calls whose work runs out of memory end with RESOURCE_EXHAUSTED, and the server can still stop.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <new>

#include "proto/wire/crc32c.h"
#include "server/server.h"
#include "tests/server/fake_engine.h"
#include "vicinal/v1/graph.grpc.pb.h"
#include "vicinal/v1/inference.grpc.pb.h"

namespace vicinal::server {
namespace {

// Where memory is to end.
struct Full {
  std::atomic<bool> look{false}, put{false}, run{false};
};

class FullEngine final : public ::vicinal::testing::FakeEngine {
 public:
  explicit FullEngine(Full* full) : full_(*full) {}
  StatusOr<GraphResource> GetGraph(const std::string& name) const override {
    if (full_.look) throw std::bad_alloc();
    return FakeEngine::GetGraph(name);
  }
  StatusOr<GraphResource> PutGraph(GraphSource source, Reservation memory) override {
    if (full_.put) throw std::bad_alloc();
    return FakeEngine::PutGraph(std::move(source), std::move(memory));
  }
  Status Submit(InferenceRequest request, InferenceCallback done) override {
    if (full_.run) throw std::bad_alloc();
    return FakeEngine::Submit(std::move(request), std::move(done));
  }
  StatusOr<TuningReport> TuneGraph(const TuneGraphRequest&) override { throw std::bad_alloc(); }
  StatusOr<std::unique_ptr<Subscription>> WatchGraph(const std::string&, std::function<void()>) override {
    throw std::bad_alloc();
  }

 private:
  Full& full_;
};

class OutOfMemoryTest : public ::testing::Test {
 protected:
  OutOfMemoryTest() {
    Config config;
    config.grpc_listen = "127.0.0.1:0";
    config.metrics_listen = "";
    config.limits.memory_budget_bytes = 1 << 30;
    config.log_level = LogLevel::kError;
    Fakes fakes;
    fakes.engine = std::make_unique<FullEngine>(&full_);
    auto server = Server::Start(config, std::move(fakes));
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const auto channel = grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials());
    graphs_ = v1::GraphService::NewStub(channel);
    inference_ = v1::InferenceService::NewStub(channel);
    spec_.mutable_spec()->set_upload_id("upload-00000001");
    spec_.mutable_spec()->set_name("new");
    spec_.mutable_spec()->set_node_count(3);
    v1::TensorSpec* tensor = spec_.mutable_spec()->add_tensors();
    tensor->set_name("edge_index");
    tensor->set_dtype(v1::DATA_TYPE_INT64);
    tensor->add_shape(2);
    tensor->add_shape(1);
    const std::string edge(16, '\0');
    chunk_.mutable_chunk()->set_tensor("edge_index");
    chunk_.mutable_chunk()->set_data(edge);
    chunk_.mutable_chunk()->set_crc32c(wire::Crc32c(edge.data(), edge.size()));
    finish_.mutable_finish();
  }
  // A call that is lost ends here, by its deadline, instead of hanging the test.
  static void Limit(grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  }
  grpc::Status Upload(const std::vector<v1::UploadGraphRequest>& messages) {
    grpc::ClientContext context;
    Limit(&context);
    v1::UploadGraphResponse response;
    const auto stream = graphs_->UploadGraph(&context, &response);
    for (const v1::UploadGraphRequest& message : messages) {
      if (!stream->Write(message)) break;
    }
    stream->WritesDone();
    return stream->Finish();
  }
  static void ExpectFull(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    EXPECT_NE(status.error_details().find("OUT_OF_MEMORY"), std::string::npos);
  }

  Full full_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::GraphService::Stub> graphs_;
  std::unique_ptr<v1::InferenceService::Stub> inference_;
  v1::UploadGraphRequest spec_, chunk_, finish_;
};

TEST_F(OutOfMemoryTest, UploadsFailAndCanBeTriedAgain) {
  full_.look = true;
  ExpectFull(Upload({spec_, chunk_, finish_}));
  full_.look = false;
  // At the finish.
  full_.put = true;
  ExpectFull(Upload({spec_, chunk_, finish_}));
  full_.put = false;
  const grpc::Status status = Upload({spec_, chunk_, finish_});
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(server_->Stop());
}

TEST_F(OutOfMemoryTest, EveryShapeOfCallEnds) {
  full_.look = full_.run = true;
  {
    grpc::ClientContext context;
    Limit(&context);
    v1::GetGraphRequest request;
    request.set_name("g");
    v1::Graph response;
    ExpectFull(graphs_->GetGraph(&context, request, &response));
  }
  {
    grpc::ClientContext context;
    Limit(&context);
    v1::TuneGraphRequest request;
    request.set_name("g");
    v1::TuneGraphResponse response;
    ExpectFull(graphs_->TuneGraph(&context, request, &response));
  }
  {
    grpc::ClientContext context;
    Limit(&context);
    v1::WatchGraphRequest request;
    request.set_name("g");
    v1::Graph response;
    const auto stream = graphs_->WatchGraph(&context, request);
    EXPECT_FALSE(stream->Read(&response));
    ExpectFull(stream->Finish());
  }
  v1::ClassifyRequest request;
  request.mutable_target()->set_graph("g");
  request.mutable_target()->set_model("m");
  request.mutable_nodes()->add_ids(1);
  v1::ClassifyResponse response;
  {
    grpc::ClientContext context;
    Limit(&context);
    ExpectFull(inference_->Classify(&context, request, &response));
  }
  {
    grpc::ClientContext context;
    Limit(&context);
    const auto stream = inference_->ClassifyStream(&context, request);
    EXPECT_FALSE(stream->Read(&response));
    ExpectFull(stream->Finish());
  }
  full_.look = full_.run = false;
  {
    grpc::ClientContext context;
    Limit(&context);
    const grpc::Status status = inference_->Classify(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_TRUE(server_->Stop());
}

}  // namespace
}  // namespace vicinal::server
